import type { Query, Row } from '../../../proto/views-json.ts'
import { viewsBounds } from '../../../proto/views-json.ts'
import type { Endpoint } from './endpoint.ts'
import { ViewClient } from './view-client.ts'
import { ViewModel } from './view-model.ts'
import type { ViewsContext } from './views-command.ts'

/** Children of a row that are asked for. */
const pageLimit = 50

export interface ShownViewOptions {
  readonly query: Query
  /** whether the children of a row are shown, too */
  readonly opens: (row: Row) => boolean
  /** in place of children: pages that are asked for from the start, whole */
  readonly nodes?: readonly string[] | undefined
  /** @param isWhole - all that is asked for is there. @returns true: that is enough */
  readonly onChange: (model: ViewModel, isWhole: boolean) => boolean
  /** the connection was lost */
  readonly onLost?: (why: string) => void
  /** until then. */
  readonly signal: AbortSignal
}

/**
 * Follows a view, with the children of what it shows, until that is enough or the signal aborts.
 *
 * @throws ViewRefused
 */
export async function showView(
  { clock, random }: Pick<ViewsContext, 'clock' | 'random'>,
  endpoint: Endpoint,
  { query, opens, nodes, onChange, onLost, signal }: ShownViewOptions,
): Promise<void> {
  const enough = new AbortController()
  const model = new ViewModel()
  const client = new ViewClient(
    {
      onUpdate: (update) => {
        model.apply(update)
        const wanted = nodes ?? wantedPages(model, opens)
        if (!nodes) client.showChildren(new Set(wanted), pageLimit)
        const isThere = (node: string) => model.pages.has(node) || (nodes !== undefined && model.refused.has(node))
        const isWhole = model.state.is !== 'syncing' && wanted.every(isThere)
        if (onChange(model, isWhole)) enough.abort()
      },
      onLost: (why) => onLost?.(why),
      clock,
      random,
    },
    endpoint,
  )
  if (nodes) client.showChildren(new Set(nodes), viewsBounds.maxLimit)
  await client.run(query, AbortSignal.any([signal, enough.signal]))
}

/** From the root on, as many as a view may have. */
function wantedPages(model: ViewModel, opens: (row: Row) => boolean): string[] {
  const wanted: string[] = []
  let rows = 0
  const queue = ['']
  for (let node = queue.shift(); node !== undefined; node = queue.shift()) {
    const children = model.children(node)
    rows += children.length
    for (const row of children) {
      if (!row.c || !opens(row)) continue
      if (wanted.length + 1 >= viewsBounds.maxPages || rows + pageLimit > viewsBounds.maxRows) return wanted
      rows += model.pages.has(row.u) ? 0 : Math.min(row.c, pageLimit)
      wanted.push(row.u)
      queue.push(row.u)
    }
  }
  return wanted
}
