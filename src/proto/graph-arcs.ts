import { type GraphArc, type GraphArcType, graphArcTypes, viewsBounds } from './views-json.ts'

/**
 * Arcs as numbers, some 24 bytes each in a set: the last bit says that the destination is absent. Two that differ in it
 * alone are one arc, of which something else is said.
 */

const { maxVertexIds } = viewsBounds

/** characters of a name, which Kubernetes lets have 253 */
const maxText = 253
const odd = /[\p{C}\p{Z}"\\$`]/u

/**
 * Whether a client can draw a vertex of such texts. Names of owners are free text: quotes, backslashes and `$` end GitLab's
 * client, in whose language they are keys.
 */
export function canBeDrawn(texts: readonly string[]): boolean {
  return texts.every((text) => text.length <= maxText && !odd.test(text))
}

export function arcNumber([from, to, type, isAbsent = 0]: GraphArc): number {
  return ((from * maxVertexIds + to) * graphArcTypes.length + graphArcTypes.indexOf(type)) * 2 + isAbsent
}

export function readArcNumber(arc: number): { from: number; to: number; type: GraphArcType; isAbsent: boolean } {
  const typed = Math.floor(arc / 2)
  const ends = Math.floor(typed / graphArcTypes.length)
  return {
    from: Math.floor(ends / maxVertexIds),
    to: ends % maxVertexIds,
    type: graphArcTypes[typed % graphArcTypes.length] as GraphArcType,
    isAbsent: arc % 2 === 1,
  }
}

/** The arc where its destination is there, and where it is not. */
export function bothArcNumbers(arc: number): readonly [present: number, absent: number] {
  const present = arc - (arc % 2)
  return [present, present + 1]
}
