// UI serves a graph whose node shows a component in a web page, first without and then with its
// data, and the component's script. Then it acts as such a page: it reads the stream, and asks for the HTML
// that loads the component.
//
//	go run ./examples/ui
//
// In a real page, useStream and LoadExternalComponent of npm @langchain/langgraph-sdk do this.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/ui"
)

//go:embed components
var files embed.FS

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

type state struct {
	City string      `json:"city"`
	UI   ui.Messages `json:"ui"`
}

type update struct {
	UI ui.Messages `json:"ui"`
}

// show shows a forecast, and then fills in the temperature.
func show(ctx context.Context, s state) (update, error) {
	card, err := ui.Push(ctx, "forecast", map[string]any{"city": s.City}, &ui.PushOptions{ID: "forecast"})
	if err != nil {
		return update{}, err
	}
	full, err := ui.Push(ctx, "forecast", map[string]any{"celsius": 21}, &ui.PushOptions{ID: "forecast", Merge: true})
	return update{ui.Messages{card, full}}, err
}

func run(ctx context.Context) (err error) {
	b := treadle.New[state]("weather")
	treadle.AddNode(b, "show", show)
	b.Edge(treadle.Start, "show")
	g, err := b.Compile(nil)
	if err != nil {
		return err
	}
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	graphs, err := server.New(db, []treadle.AnyGraph{g}, nil)
	if err != nil {
		return err
	}
	components, err := fs.Sub(files, "components")
	if err != nil {
		return err
	}
	scripts, err := ui.Handler(map[string]fs.FS{"weather": components})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/ui/", scripts)
	mux.Handle("/", graphs) // the server.Server
	site := httptest.NewServer(mux)
	defer site.Close()
	defer func() { err = errors.Join(err, graphs.Drain(ctx)) }()
	return page(ctx, site.URL)
}

// page does what a page does.
func page(ctx context.Context, url string) error {
	c, err := client.New(url, nil)
	if err != nil {
		return err
	}
	for ev, err := range c.Runs.Stream(ctx, "", &client.RunCreate{Assistant: "weather", Input: state{City: "Paris"}, StreamMode: []string{"custom"}}) {
		if err != nil {
			return err
		}
		var m ui.Message
		if ev.Mode == "custom" && m.UnmarshalJSON(ev.Data) == nil {
			fmt.Println("page:", m.Name, m.Props)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/ui/weather", strings.NewReader(`{"name": "forecast"}`))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	html, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	fmt.Print(strings.ReplaceAll(string(html), url, ""))
	return nil
}
