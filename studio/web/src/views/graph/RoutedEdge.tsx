import { BaseEdge, type Edge, type EdgeProps } from "@xyflow/react";
import { memo } from "react";
import { curve, type Point } from "./layout";

export type GraphEdge = Edge<{ points: Point[]; at: Point }>;

/** RoutedEdge runs as the layout has laid it, around the nodes between its ends. */
export const RoutedEdge = memo(function RoutedEdge({ id, data, label, markerEnd }: EdgeProps<GraphEdge>) {
  const { points, at } = data!;
  return <BaseEdge id={id} path={curve(points)} label={label} labelX={at.x} labelY={at.y} labelBgPadding={[5, 2]} labelBgBorderRadius={4} markerEnd={markerEnd} interactionWidth={0} />;
});
