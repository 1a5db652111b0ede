// The parts of a form that all its fields share.
import { createContext, use } from "react";
import type { AnySchema, Problem } from "./schema";

export interface FormContext {
  root: AnySchema;
  problems: Problem[];
}

export const Context = createContext<FormContext>({ root: undefined, problems: [] });
export const useForm = (): FormContext => use(Context);

export interface FieldProps {
  value: unknown;
  onChange(value: unknown): void;
  path: (string | number)[];
}

export interface ControlProps extends FieldProps {
  id: string;
  name: string;
  required?: boolean;
  described?: string;
  wrong: boolean;
}
