package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	maxScore = 100
	best     = 10
)

// binpack is Volcano's, with its default weights; 0 for a node that has too little.
func binpack(n node, wanted request) float64 {
	score, weights := 0.0, 0
	for _, each := range [2]struct{ capacity, used, wanted int64 }{
		{n.allocatable.cpu, n.used.cpu, wanted.cpu},
		{n.allocatable.memory, n.used.memory, wanted.memory},
	} {
		if each.wanted == 0 {
			continue
		}
		weights++
		if each.capacity == 0 {
			continue
		}
		used := each.used + each.wanted
		if used > each.capacity {
			return 0
		}
		score += float64(used) / float64(each.capacity)
	}
	if weights > 0 {
		score /= float64(weights)
	}
	return score * maxScore
}

// nodeOrder is the sum of kube-scheduler's least requested and balanced resources, as Volcano calls them.
func nodeOrder(n node, wanted request) float64 {
	return leastRequested(n, wanted) + balanced(n, wanted)
}

func leastRequested(n node, wanted request) float64 {
	total, weights := int64(0), int64(0)
	for _, each := range [2]struct{ capacity, used int64 }{
		{n.allocatable.cpu, n.used.paddedCPU + wanted.paddedCPU},
		{n.allocatable.memory, n.used.paddedMemory + wanted.paddedMemory},
	} {
		if each.capacity == 0 {
			continue
		}
		total += (each.capacity - min(each.used, each.capacity)) * maxScore / each.capacity
		weights++
	}
	if weights == 0 {
		return 0
	}
	return float64(total / weights)
}

func balanced(n node, wanted request) float64 {
	spread := 0.0
	if n.allocatable.cpu > 0 && n.allocatable.memory > 0 {
		cpu := min(1, float64(n.used.cpu+wanted.cpu)/float64(n.allocatable.cpu))
		memory := min(1, float64(n.used.memory+wanted.memory)/float64(n.allocatable.memory))
		spread = math.Abs(cpu-memory) / 2
	}
	return math.Trunc((1 - spread) * maxScore)
}

// choose takes one of the best nodes, and has it be better than those that equal it.
func choose(scores []float64) int {
	highest, equal, chosen := slices.Max(scores), 0, 0
	for i, score := range scores {
		if score == highest {
			equal++
			if rand.IntN(equal) == 0 {
				chosen = i
			}
		}
	}
	if equal > 1 {
		below := math.Nextafter(highest, math.Inf(-1))
		for i, score := range scores {
			if score == highest && i != chosen {
				scores[i] = below
			}
		}
	}
	return chosen
}

// toLevels gives 10 to the best, and 0 to 9 to the others, in their order.
func toLevels(scores []float64) []int64 {
	distinct := slices.Clone(scores)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	below := len(distinct) - 1
	levels := make([]int64, len(scores))
	for i, score := range scores {
		place, _ := slices.BinarySearch(distinct, score)
		rank := below - 1 - place
		switch {
		case place == below:
			levels[i] = best
		case below <= best:
			levels[i] = int64(9 - rank)
		default:
			levels[i] = int64(9 - rank*best/below)
		}
	}
	return levels
}
