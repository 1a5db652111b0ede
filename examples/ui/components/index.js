// The components of the graph weather, as a bundle of langgraphjs-ui build defines them.
var __LGUI_weather = (() => {
  const React = globalThis[Symbol.for("LGUI_REQUIRE")]("react");
  const components = {
    forecast: ({ city, celsius }) => React.createElement("p", null, celsius === undefined ? `${city}: …` : `${city}: ${celsius} °C`),
  };
  return {
    render(name, id) {
      const root = document.getElementById(id).shadowRoot;
      const target = root.appendChild(document.createElement("div"));
      window[Symbol.for("LGUI_EXT_STORE")].respond(id, components[name], target);
    },
  };
})();
