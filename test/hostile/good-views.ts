import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import type { Endpoint } from '../../src/kas/command/endpoint.ts'
import type { Query } from '../../src/proto/views-json.ts'
import { WatchedView } from '../soak/views/watched-view.ts'
import { goodNamespace } from './good-source.ts'

const scope = { namespaces: [goodNamespace] }
/** open views of each endpoint; rows are awaited in the first */
const queries: readonly Query[] = [
  { view: 'list', scope },
  { view: 'tree', scope },
  { view: 'events', scope },
]
const maps = `/api/v1/namespaces/${goodNamespace}/configmaps`

export interface GoodViewsComponents {
  readonly cluster: ApiClient
  /** one for each replica that good tenants use */
  readonly endpoints: readonly Endpoint[]
}

/** Open views of good tenants, and changes in them. */
export class GoodViews {
  readonly #cluster: ApiClient
  readonly #lists: readonly WatchedView[]
  readonly #all: readonly WatchedView[]
  #shown: string | undefined

  constructor({ cluster, endpoints }: GoodViewsComponents) {
    const views = endpoints.map((endpoint) => queries.map((query) => new WatchedView(endpoint, query)))
    this.#cluster = cluster
    this.#lists = views.flatMap(([list]) => list ?? [])
    this.#all = views.flat()
  }

  /** Views that have ended by themselves, in words. */
  get ended(): string[] {
    return this.#all.flatMap(({ query, refusal }) =>
      refusal ? [`the view ${query.view} has ended: ${refusal.message}`] : [],
    )
  }

  /** Resolves once all are live. */
  async start(timeoutMs: number, signal: AbortSignal): Promise<void> {
    for (const view of this.#all) view.start()
    await this.live(timeoutMs, signal)
  }

  /** @throws Error if one is not live in time */
  async live(timeoutMs: number, signal: AbortSignal): Promise<void> {
    await Promise.all(
      this.#all.map((view) => view.until('live', () => view.model?.state.is === 'live', timeoutMs, signal)),
    )
  }

  /**
   * Puts a row in place of the one before. @returns ms until each list shows it. @throws Error if that is not in time
   */
  async change(name: string, timeoutMs: number, signal: AbortSignal): Promise<number[]> {
    const began = performance.now()
    const before = this.#shown
    this.#shown = name
    await this.#cluster.create(maps, { metadata: { name } })
    const [shown] = await Promise.all([
      Promise.all(
        this.#lists.map(async (view) => {
          await view.until(`a row ${name}`, () => hasRow(view, name), timeoutMs, signal)
          return performance.now() - began
        }),
      ),
      before === undefined ? undefined : this.#cluster.request(`${maps}/${before}`, { method: 'DELETE' }),
    ])
    return shown
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map((view) => view.stop()))
  }
}

function hasRow({ model }: WatchedView, name: string): boolean {
  return model?.children('').some((row) => row.n === name) ?? false
}
