import type { Clock } from '../../../../lib/clock.ts'
import type { Row, Update } from '../../../../proto/views-json.ts'
import type { KasRequest } from '../../../command/ask-kas.ts'
import { readUpdate } from './received.ts'
import { isGroup, type ShownView, verdictOf } from './shown-view.ts'
import { isWell } from './verdict-text.ts'

/** They are asked about anew, while somebody watches. ms */
const againMs = 5000
/** that are asked about */
const maxNamespaces = 5

export interface EndingComponents {
  readonly clock: Clock
  /** as the caller */
  readonly ask: (request: KasRequest) => Promise<string>
}

/**
 * Rows of namespaces that are asked for and are being deleted: they are in no namespace, so a view of one has what is in
 * it alone. They are asked about where something in one is being deleted or is not well, or nothing is there.
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

  /** @param onAnswer - is called once it is there, and `rows` are new. @returns whether there is no answer yet, and one comes */
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
    // what the caller may not ask for: then what is in the namespace is shown alone
    const answer = await this.#components
      .ask({ method: 'GET', path: `/views?${query}` })
      .then(readUpdate)
      .catch((): Pick<Update, 'rows'> => ({}))
    return (answer.rows ?? []).filter((row) => row.k === 'Namespace' && row.n === name && isEnding(row))
  }
}

const isEnding = ({ f = [] }: Row) => f.includes('Terminating')

/** Where deletions are refused nothing is Terminating: its Deployment has gone, and what that made is there. */
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

/** Roots are: what others own goes with every rollout. */
function mayEnd(model: ShownView, namespace: string): boolean {
  if (model.state.refused) return false
  const roots = model.children('').flatMap((row) => (isGroup(row) ? model.children(row.u) : [row]))
  const own = roots.filter(({ ns }) => ns === namespace)
  return own.length === 0 || own.some((row) => isEnding(row) || isOdd(row))
}
