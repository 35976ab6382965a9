import { at, listAt, textAt } from '../../../../kubernetes/object.ts'
import { maxName, maxSelector, maxSelectorText } from './bounds.ts'
import type { LabelSelector } from './projector.ts'

/**
 * Reads a selector as Services have it: labels alone.
 *
 * @returns undefined: it selects nothing, or is too large to be kept whole. Cut, it would select more.
 */
export function plainSelector(object: unknown, path: string): LabelSelector | undefined {
  const labels = pairsOf(at(object, path))
  return labels?.length ? bounded({ labels, expressions: [] }) : undefined
}

/**
 * Reads a selector as PodDisruptionBudgets have it; an empty one selects all.
 *
 * @returns undefined: there is none, or it cannot be kept whole
 */
export function labelSelector(object: unknown, path: string): LabelSelector | undefined {
  const selector = at(object, path)
  if (typeof selector !== 'object' || selector === null) return undefined
  const labels = pairsOf(at(selector, 'matchLabels') ?? {})
  const expressions = listAt(selector, 'matchExpressions').map((one) => ({
    key: textAt(one, 'key'),
    operator: textAt(one, 'operator'),
    values: textsOf(at(one, 'values') ?? []),
  }))
  const isWhole = (one: (typeof expressions)[number]): one is typeof one & { values: string[] } =>
    one.values !== undefined && [one.key, one.operator].every((text) => text !== '' && text.length <= maxName)
  const asked = at(selector, 'matchExpressions') ?? []
  if (!labels || !Array.isArray(asked) || asked.length !== expressions.length) return undefined
  if (expressions.length > maxSelector || !expressions.every(isWhole)) return undefined
  return bounded({ labels, expressions })
}

function bounded(selector: LabelSelector): LabelSelector | undefined {
  const texts = [...selector.labels.flat(), ...selector.expressions.flatMap(({ key, values }) => [key, ...values])]
  return texts.reduce((sum, { length }) => sum + length, 0) <= maxSelectorText ? selector : undefined
}

function pairsOf(table: unknown): (readonly [string, string])[] | undefined {
  if (typeof table !== 'object' || table === null || Array.isArray(table)) return undefined
  const pairs = Object.entries(table)
  if (pairs.length > maxSelector || !textsOf(pairs.flat())) return undefined
  return pairs as [string, string][]
}

function textsOf(list: unknown): string[] | undefined {
  if (!Array.isArray(list) || list.length > 2 * maxSelector) return undefined
  return list.every((text) => typeof text === 'string' && text.length <= maxName) ? list : undefined
}

/** @returns true if the labels are selected */
export type Selects = (labels: ReadonlyMap<string, string>) => boolean

/** Compiles a selector as Kubernetes reads it: all its parts must match, so an empty one selects all. */
export function compileSelector({ labels, expressions }: LabelSelector): Selects {
  const holds = expressions.map(compileExpression)
  return (of) => labels.every(([name, value]) => of.get(name) === value) && holds.every((one) => one(of))
}

function compileExpression({ key, operator, values }: LabelSelector['expressions'][number]): Selects {
  const listed: ReadonlySet<string | undefined> = new Set(values)
  switch (operator) {
    case 'In':
      return (of) => listed.has(of.get(key))
    case 'NotIn':
      return (of) => !listed.has(of.get(key))
    case 'Exists':
      return (of) => of.has(key)
    case 'DoesNotExist':
      return (of) => !of.has(key)
    default:
      return () => false
  }
}
