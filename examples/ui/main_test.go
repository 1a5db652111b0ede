package main

import "context"

func Example() {
	if err := run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// page: forecast map[city:Paris]
	// page: forecast map[celsius:21]
	// <script src="/ui/weather/index.js" onload="__LGUI_weather.render(&#34;forecast&#34;, &#34;{{shadowRootId}}&#34;)"></script>
}
