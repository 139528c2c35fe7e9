"""How soon a stop is acknowledged and freed room is used while pods come and go in hundreds of queues."""
