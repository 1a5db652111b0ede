import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react()],
  // The page works under any path, since servers mount it where they like.
  base: "./",
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    target: "es2022",
    // The colours use light-dark(), which these have and older targets would have replaced.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    // Styles and scripts are files of their own: the page's policy forbids inline ones.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 2000,
    rolldownOptions: {
      output: {
        // Names without hashes keep the history of the committed build short. The
        // server sends ETags.
        entryFileNames: "studio.js",
        chunkFileNames: "[name].js",
        assetFileNames: "[name][extname]",
      },
      onwarn(warning, warn) {
        if (warning.code !== "MODULE_LEVEL_DIRECTIVE") warn(warning);
      },
    },
  },
  // npm run dev: the page here, the API at a server that runs.
  server: { port: 5173 },
});
