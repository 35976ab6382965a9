import { KasError } from '../../../../lib/errors.ts'
import type { Selects } from '../projection/selectors.ts'
import { readLabelQuery } from './label-query.ts'
import { list, members, oneOf, refuse, text } from './members.ts'

/** bound of queries for one graph */
export const maxQueries = 32
/** bound of expressions that choose the roots of a graph */
export const maxRoots = 16
/** bound of namespaces that a graph's request names */
export const maxNames = 500
/** characters of all its expressions: each object may be compared with all of them */
export const maxExpressionsText = 4096
/** characters of a namespace's name, in a list or a field selector */
const maxNameLength = 253
/** bound of terms in a field selector */
const maxFieldTerms = 8

/** Refusal of expressions over whole objects, which records do not have. */
export const notKept = 'obj, annotations and json_path are not kept here'
const directions = ['or', 'r', 't'] as const

type Named = { readonly namespace: string; readonly name: string }
type SelectsNames = (named: Named) => boolean

/** Conditions on an object besides its kind; all must be met. Expressions are CEL; empty: always true. */
export interface ObjectSelector {
  readonly labels: Selects | undefined
  readonly names: SelectsNames | undefined
  readonly expression: string
}

export interface KindQuery extends ObjectSelector {
  readonly does: 'include' | 'exclude'
  /** over kinds: CEL; empty: always true */
  readonly kinds: string
}

export interface NamespacesQuery extends Omit<ObjectSelector, 'names'> {
  /** undefined: any */
  readonly names: ReadonlySet<string> | undefined
  readonly fields: SelectsNames | undefined
}

/** Query of a graph, in the terms of GitLab's clients (doc/reference/graph.md). */
export interface GraphQuery {
  readonly queries: readonly KindQuery[]
  readonly namespaces: NamespacesQuery
  /** expressions over objects; none: all that is selected is shown */
  readonly roots: readonly string[]
  /** types of arcs that are followed both ways */
  readonly bothWays: ReadonlySet<string>
}

/** @throws KasError BAD_REQUEST: it names what is allowed; expressions are read by `GraphSelection` */
export function readGraph(value: unknown): GraphQuery {
  const { queries: some, namespaces: where, roots } = members(value, 'the graph', ['queries', 'namespaces', 'roots'])
  const queries = queriesIn(some)
  const namespaces = namespacesIn(where ?? {})
  const from = members(roots ?? {}, '"roots"', ['object_selector_expressions', 'ignore_arc_direction'])
  const expressions = list(from.object_selector_expressions ?? undefined, '"object_selector_expressions"') ?? []
  if (expressions.length > maxRoots) refuse(`"object_selector_expressions" has ${maxRoots} at most`)
  const both = list(from.ignore_arc_direction ?? undefined, '"ignore_arc_direction"') ?? []
  const bothWays = new Set(both.map((one) => oneOf(one, '"ignore_arc_direction"', directions)))
  const all = [namespaces, ...queries].map(({ expression }) => expression)
  const length = [...all, ...queries.map(({ kinds }) => kinds), ...expressions].join('').length
  if (length > maxExpressionsText) refuse(`expressions have ${maxExpressionsText} characters at most`)
  return { queries, namespaces, roots: expressions, bothWays }
}

function queriesIn(value: unknown): readonly KindQuery[] {
  if (value === undefined || value === null) return refuse('"queries" includes nothing')
  if (!Array.isArray(value) || value.length > maxQueries) return refuse(`"queries" is a list of at most ${maxQueries}`)
  const queries = value.map((one): KindQuery => {
    const { include, exclude } = members(one, 'one of "queries"', ['include', 'exclude'])
    if ((include === undefined) === (exclude === undefined))
      return refuse('one of "queries" is to "include" or to "exclude"')
    return include === undefined ? excludeIn(exclude) : includeIn(include)
  })
  return queries.some(({ does }) => does === 'include') ? queries : refuse('"queries" includes nothing')
}

function includeIn(value: unknown): KindQuery {
  const { resource_selector_expression: kinds, object } = members(value, '"include"', [
    'resource_selector_expression',
    'object',
  ])
  const { json_path: path, ...selector } = members(object ?? {}, '"object"', [
    'label_selector',
    'field_selector',
    'object_selector_expression',
    'json_path',
  ])
  if (text(path, '"json_path"') !== '') refuse(notKept)
  return { does: 'include', kinds: text(kinds, '"resource_selector_expression"'), ...selectorIn(selector) }
}

function excludeIn(value: unknown): KindQuery {
  const { resource_selector_expression: kinds } = members(value, '"exclude"', ['resource_selector_expression'])
  return { does: 'exclude', kinds: text(kinds, '"resource_selector_expression"'), ...selectorIn({}) }
}

function namespacesIn(value: unknown): NamespacesQuery {
  const { names, ...selector } = members(value, '"namespaces"', [
    'names',
    'label_selector',
    'field_selector',
    'object_selector_expression',
  ])
  const some = list(names ?? undefined, '"names"')
  if (some && (some.length > maxNames || some.some((name) => name.length > maxNameLength || name === '')))
    refuse(`"names" has ${maxNames} at most, of 1 to ${maxNameLength} characters`)
  const { labels, names: fields, expression } = selectorIn(selector)
  return { names: some && new Set(some), fields, labels, expression }
}

function selectorIn(value: {
  readonly label_selector?: unknown
  readonly field_selector?: unknown
  readonly object_selector_expression?: unknown
}): ObjectSelector {
  const labels = readLabelQuery(text(value.label_selector, '"label_selector"'), '"label_selector"')
  const fields = text(value.field_selector, '"field_selector"')
  return {
    labels,
    names: fields === '' ? undefined : fieldsIn(fields),
    expression: text(value.object_selector_expression, '"object_selector_expression"'),
  }
}

const fieldTerm = /^\s*metadata\.(?<field>name|namespace)\s*(?<operator>==?|!=)\s*(?<value>[a-z0-9.:-]*)\s*$/

/** Reads a field selector of names alone: no other field of an object is kept. */
function fieldsIn(selector: string): SelectsNames {
  const terms = selector.split(',', maxFieldTerms + 1)
  const holds = terms.map((term): SelectsNames => {
    const { field, operator, value = '' } = fieldTerm.exec(term.slice(0, 2 * maxNameLength))?.groups ?? {}
    if (terms.length > maxFieldTerms || (field !== 'name' && field !== 'namespace'))
      throw new KasError({
        code: 'BAD_REQUEST',
        detail: `"field_selector" is of metadata.name and metadata.namespace, ${maxFieldTerms} terms at most: other fields are not kept here`,
      })
    return (named) => (named[field] === value) === (operator !== '!=')
  })
  return (named) => holds.every((one) => one(named))
}
