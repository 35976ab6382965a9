import { type GraphArc, type GraphArcType, graphArcTypes, viewsBounds } from './views-json.ts'

/**
 * Arcs as numbers, some 24 bytes each in a set. The last bit is set if the destination is absent. Two numbers that
 * differ only in it are one arc with another state.
 */

const { maxVertexIds } = viewsBounds

/** length that Kubernetes allows for a name, in characters */
const maxText = 253
const odd = /[\p{C}\p{Z}"\\$`]/u

/**
 * True if a client can draw a vertex with these texts. Names of owners are free text. Quotes, backslashes and `$` crash
 * GitLab's client, which uses names as keys of its drawing language.
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

/** Returns the number of the arc with its destination, and without it. */
export function bothArcNumbers(arc: number): readonly [present: number, absent: number] {
  const present = arc - (arc % 2)
  return [present, present + 1]
}
