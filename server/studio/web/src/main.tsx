// Styles shared by all views come first, so that those of a view win.
import "./ui/tokens.css";
import "./ui/base.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { ConnectionProvider } from "./app/connection";
import { applyTheme } from "./app/theme";
import { SessionProvider } from "./data/session";
import { Toasts } from "./ui/Toast";

applyTheme();

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <ConnectionProvider>
      <SessionProvider>
        <Toasts>
          <App />
        </Toasts>
      </SessionProvider>
    </ConnectionProvider>
  </StrictMode>,
);
