import type { Clock } from '../../../../lib/clock.ts'
import type { Row, Update } from '../../../../proto/views-json.ts'
import type { KasRequest } from '../../../command/ask-kas.ts'
import { readUpdate } from './received.ts'
import { isGroup, type ShownView, verdictOf } from './shown-view.ts'
import { isWell } from './verdict-text.ts'

/** Period in which namespaces are read again with `--watch`, in ms. */
const againMs = 5000
/** namespaces that are read */
const maxNamespaces = 5

export interface EndingComponents {
  readonly clock: Clock
  /** asks kas as the caller */
  readonly ask: (request: KasRequest) => Promise<string>
}

/**
 * Rows of requested namespaces that are being deleted. Namespaces are cluster-scoped, so a view of one contains only
 * the objects in it. A namespace is read if an object in it is being deleted or is unhealthy, or if it is empty.
 */
export class EndingNamespaces {
  readonly #components: EndingComponents
  readonly #names: readonly string[]
  #rows: readonly Row[] = []
  #answeredAt: number | undefined
  #isAsking = false

  constructor(components: EndingComponents, names: readonly string[]) {
    this.#components = components
    this.#names = names.slice(0, maxNamespaces)
  }

  get rows(): readonly Row[] {
    return this.#rows
  }

  /** @param onAnswer - called after `rows` were updated. @returns true if there is no answer yet, and one will come */
  refresh(model: ShownView, onAnswer: () => void): boolean {
    const names = this.#names.filter((name) => mayEnd(model, name))
    if (names.length === 0) this.#rows = []
    const { clock } = this.#components
    const isFresh = this.#answeredAt !== undefined && clock.now() - this.#answeredAt < againMs
    if (names.length === 0 || isFresh) return false
    if (!this.#isAsking) {
      this.#isAsking = true
      void Promise.all(names.map((name) => this.#ask(name))).then((rows) => {
        this.#isAsking = false
        this.#answeredAt = clock.now()
        this.#rows = rows.flat()
        onAnswer()
      })
    }
    return this.#answeredAt === undefined
  }

  async #ask(name: string): Promise<readonly Row[]> {
    const query = new URLSearchParams({ view: 'list', kind: 'Namespace', text: name })
    // a caller without permission sees only the objects in the namespace
    const answer = await this.#components
      .ask({ method: 'GET', path: `/views?${query}` })
      .then(readUpdate)
      .catch((): Pick<Update, 'rows'> => ({}))
    return (answer.rows ?? []).filter((row) => row.k === 'Namespace' && row.n === name && isEnding(row))
  }
}

const isEnding = ({ f = [] }: Row) => f.includes('Terminating')

/**
 * True for signs of a deletion that is refused. Nothing is Terminating then, but the owner is gone and its objects
 * remain.
 */
function isOdd(row: Row): boolean {
  const word = verdictOf(row)
  return !isWell(word) || !isWell(row.w ?? '') || (word === '' && summaries.has(row.k))
}

const summaries: ReadonlySet<string> = new Set([
  'apps/Deployment',
  'apps/ReplicaSet',
  'apps/StatefulSet',
  'apps/DaemonSet',
])

/** True if the namespace may be ending. Only roots count: owned objects are deleted with every rollout. */
function mayEnd(model: ShownView, namespace: string): boolean {
  if (model.state.refused) return false
  const roots = model.children('').flatMap((row) => (isGroup(row) ? model.children(row.u) : [row]))
  const own = roots.filter(({ ns }) => ns === namespace)
  return own.length === 0 || own.some((row) => isEnding(row) || isOdd(row))
}
