// Draws each picture of this folder: NAME.svg from the text NAME.dot, by Graphviz. `make pictures` runs it.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-graphviz"
)

func main() {
	sources, err := filepath.Glob("*.dot")
	if err != nil {
		log.Fatal(err)
	}
	for _, source := range sources {
		if err := draw(source); err != nil {
			log.Fatalf("%s: %v", source, err)
		}
	}
}

// The first line of a picture has the digest of its text; tests/docs/test_pictures.py compares them.
func draw(source string) error {
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	ctx := context.Background()
	engine, err := graphviz.New(ctx)
	if err != nil {
		return err
	}
	graph, err := graphviz.ParseBytes(text)
	if err != nil {
		return err
	}
	var picture bytes.Buffer
	if err := engine.Render(ctx, graph, graphviz.SVG, &picture); err != nil {
		return err
	}
	_, drawn, found := strings.Cut(picture.String(), "<svg")
	if !found {
		return fmt.Errorf("graphviz drew no SVG")
	}
	head := fmt.Sprintf("<!-- drawn from %s, sha256 %x, by `make pictures` -->\n", source, sha256.Sum256(text))
	return os.WriteFile(strings.TrimSuffix(source, ".dot")+".svg", []byte(head+"<svg"+drawn), 0o644)
}
