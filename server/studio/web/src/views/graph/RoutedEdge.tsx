import { BaseEdge, type Edge, type EdgeProps } from "@xyflow/react";
import { memo } from "react";
import type { Point } from "./geometry";
import { bends, curve, type Route } from "./layout";

export type GraphEdge = Edge<{ route: Omit<Route, "label">; at: Point }>;

/** RoutedEdge follows the route of the layout, around the nodes between its ends. */
export const RoutedEdge = memo(function RoutedEdge({ id, data, label, markerEnd }: EdgeProps<GraphEdge>) {
  const { route, at } = data!;
  return (
    <BaseEdge
      id={id}
      path={(route.straight ? bends : curve)(route.points)}
      label={label}
      labelX={at.x}
      labelY={at.y}
      labelBgPadding={[5, 2]}
      labelBgBorderRadius={4}
      markerEnd={markerEnd}
      interactionWidth={0}
    />
  );
});
