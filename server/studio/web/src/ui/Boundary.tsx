import { Component, type ReactNode } from "react";
import { Failed } from "./States";

/** Boundary keeps an error in a view from breaking the page. */
export class Boundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (this.state.error)
      return (
        <Failed what="This view failed" error={this.state.error.message} retry={() => this.setState({ error: null })} />
      );
    return this.props.children;
  }
}
