// Rules against mistakes. Prettier formats; max-len finds the lines that it cannot break.
import { createNodeResolver, importX } from "eslint-plugin-import-x";
import reactHooks from "eslint-plugin-react-hooks";
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  {
    files: ["src/**/*.{ts,tsx}"],
    extends: [tseslint.configs.recommendedTypeChecked],
    plugins: { "import-x": importX, "react-hooks": reactHooks },
    settings: {
      "import-x/resolver-next": [createNodeResolver({ extensions: [".ts", ".tsx"] })],
      "import-x/parsers": { "@typescript-eslint/parser": [".ts", ".tsx"] },
    },
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "import-x/no-cycle": "error",
      "react-hooks/rules-of-hooks": "error",
      "react-hooks/exhaustive-deps": "error",
      "max-len": ["error", { code: 120 }],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "@typescript-eslint/no-unused-vars": ["error", { varsIgnorePattern: "^_" }],
      // Props are declared as methods, and none of them uses this.
      "@typescript-eslint/unbound-method": "off",
      // Values of the state are JSON of any kind, which String makes readable.
      "@typescript-eslint/no-base-to-string": "off",
    },
  },
  {
    files: ["src/**/*.{ts,tsx}"],
    ignores: ["src/data/client.ts"],
    rules: {
      "no-restricted-imports": [
        "error",
        { name: "@langchain/langgraph-sdk/client", message: "Use newClient of data/client, which has the casts." },
      ],
      "no-restricted-syntax": [
        "error",
        { selector: "TSAsExpression > TSNeverKeyword", message: "Add a method with the right types to data/client." },
      ],
    },
  },
);
