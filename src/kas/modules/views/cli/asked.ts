import { kindWord } from '../../../../kubernetes/kind-words.ts'
import {
  argoWords,
  type Filter,
  type Query,
  type QueryObject,
  type Scope,
  type SortName,
  sortNames,
  viewsBounds,
} from '../../../../proto/views-json.ts'
import { type CliValues, textOption, UsageError } from '../../../command/command.ts'
import { isWell } from './verdict-text.ts'

/** Objects that a command line names, in kubectl's form: `KIND[,KIND…] [NAME…]`, or `KIND/NAME…`. */
export interface Asked {
  readonly query: Pick<Query, 'objects' | 'labels' | 'sort' | 'scope' | 'filter'>
  /** words for kinds, as they were given */
  readonly words: readonly string[]
  /** names with the word for their kind */
  readonly names: readonly { readonly kind: string; readonly name: string }[]
  /** namespaces of the command line, or of the context */
  readonly namespaces?: readonly string[]
}

/** Verdicts that `--problems` shows. */
export const problemWords = argoWords.filter((word) => !isWell(word))

/**
 * Adds the namespace of the context, as kubectl does, if the command line names neither namespaces nor a group of
 * objects.
 */
export function addContextNamespace(values: CliValues, namespace: string | undefined): CliValues {
  const names = ['namespace', 'all-namespaces', 'environment', 'application']
  const isNamed = names.some((name) => values[name] !== undefined)
  return isNamed || namespace === undefined ? values : { ...values, namespace: [namespace] }
}

/** @throws UsageError */
export function readAsked(positionals: readonly string[], values: CliValues): Asked {
  const named = readPositionals(positionals)
  const scope = scopeOf(values)
  const labels = textOption(values, 'selector')
  const sort = sortOf(values)
  const { namespaces, ...rest } = scope ?? {}
  const filter = filterOf(values, named)
  const isElsewhere = ({ kind }: { kind: string }) => isClusterScoped(kind)
  // as in kubectl, a namespace does not restrict cluster-scoped kinds; the agent knows the scope of other kinds
  const areMixed = named.some((one) => isElsewhere(one) || kindWord(one.kind).builtIn.length === 0)
  const places = areMixed ? (namespaces ?? []) : []
  const objects = named.flatMap((one): readonly QueryObject[] =>
    places.length > 0 && !isElsewhere(one) ? places.map((namespace) => ({ ...one, namespace })) : [one],
  )
  if (objects.length > viewsBounds.maxObjects) throw new UsageError(`at most ${viewsBounds.maxObjects} objects`)
  const within: Scope = areMixed || !namespaces ? rest : { namespaces, ...rest }
  return {
    query: {
      ...(objects.length > 0 ? { objects } : {}),
      ...(labels === undefined ? {} : { labels }),
      ...(sort === undefined ? {} : { sort }),
      ...(filter ? { filter } : {}),
      ...(Object.keys(within).length > 0 ? { scope: within } : {}),
    },
    words: [...new Set(named.map(({ kind }) => kind))],
    names: named.flatMap(({ kind, name }) => (name === undefined ? [] : [{ kind, name }])),
    ...(namespaces ? { namespaces } : {}),
  }
}

function readPositionals(positionals: readonly string[]): { kind: string; name?: string }[] {
  const [first = '', ...names] = positionals
  const pairs = positionals.map((one) => pairOf(one))
  if (pairs.some(Boolean)) {
    return pairs.map((pair, i) => {
      if (pair) return pair
      throw new UsageError(`${positionals[i]}: KIND/NAME stands beside others of its form alone`)
    })
  }
  const kinds = first.split(',').filter(Boolean)
  if (names.length === 0) return kinds.map((kind) => ({ kind }))
  return kinds.flatMap((kind) => names.map((name) => ({ kind, name })))
}

/** @returns undefined: the text is a kind, such as `apps/Deployment`. @throws UsageError */
function pairOf(text: string): { kind: string; name: string } | undefined {
  const slash = text.indexOf('/')
  // names of objects have no capital letters
  if (slash < 0 || /^[A-Z]/.test(text.slice(slash + 1)) || kindWord(text).builtIn.length > 0) return undefined
  const [kind, name] = [text.slice(0, slash), text.slice(slash + 1)]
  if (kind === '' || name === '') throw new UsageError(`${text}: allowed is KIND/NAME`)
  return { kind, name }
}

export function isClusterScoped(word: string): boolean {
  const { builtIn } = kindWord(word)
  return builtIn.length > 0 && builtIn.every(({ isNamespaced }) => !isNamespaced)
}

/**
 * Returns the filter of `--problems`. Named objects are refused: without a row, one could be healthy or missing.
 *
 * @throws UsageError
 */
function filterOf(values: CliValues, named: readonly { name?: string }[]): Filter | undefined {
  if (values.problems !== true) return undefined
  if (named.every(({ name }) => name === undefined)) return { verdicts: problemWords }
  throw new UsageError('--problems chooses from all objects, and here one is named: leave out the name, or --problems')
}

function sortOf(values: CliValues): SortName | undefined {
  const text = textOption(values, 'sort')
  const sort = sortNames.find((one) => one === text)
  if (text === undefined || sort) return sort
  throw new UsageError(`--sort ${text}: allowed is ${sortNames.join(', ')}`)
}

/** Reads `-n`, `-A`, `--environment` and `--application`. @throws UsageError */
export function scopeOf(values: CliValues): Scope | undefined {
  const named = (values.namespace ?? []) as readonly string[]
  const namespaces = values['all-namespaces'] === true ? [] : named.flatMap((one) => one.split(',')).filter(Boolean)
  const environment = textOption(values, 'environment')
  const application = textOption(values, 'application')
  if (environment !== undefined && !/^\d+\/.+$/.test(environment)) {
    throw new UsageError(`--environment ${environment}: allowed is <project id>/<slug>, such as 7/production`)
  }
  const scope: Scope = {
    ...(namespaces.length > 0 ? { namespaces } : {}),
    ...(environment === undefined ? {} : { environment }),
    ...(application === undefined ? {} : { application }),
  }
  return Object.keys(scope).length > 0 ? scope : undefined
}
