import type { Data, OutputKind } from '../../../../command/output.ts'
import type { ShownView } from '../shown-view.ts'
import { eventItem, objectItem, verdictCounts } from './object-item.ts'
import type {
  EventChange,
  EventItem,
  EventList,
  ObjectChange,
  ObjectItem,
  ObjectList,
  StateChange,
  ViewDescription,
} from './views-output-kinds.ts'

/** Output of a view for programs: a list, or with `--watch` its changes. */
export interface ProgramView<Item extends { readonly id: string } = ObjectItem | EventItem> {
  /** @param now - in ms since 1970, by the agent's clock */
  items(model: ShownView, now: number): readonly Item[]
  list(model: ShownView, description: ViewDescription, items: readonly Item[]): Data
  change(type: ObjectChange['type'], item: Item): OutputKind
  state(model: ShownView, description: ViewDescription, complete: boolean): StateChange
}

const apiVersion = 'kas/v1'

export interface ObjectViewParts extends Pick<ProgramView<ObjectItem>, 'items'> {
  counts(model: ShownView): ShownView['counts']
  /** Returns one name per line, as kubectl accepts them; absent: names are not printed. */
  names?(model: ShownView): readonly string[]
}

/** Makes output of objects, the items of an `ObjectList`. */
export function objectView({ items, ...parts }: ObjectViewParts): ProgramView {
  const view: ProgramView<ObjectItem> = {
    items,
    list(model, description, all): Data<ObjectList> {
      const fields = { ...description, ...summary(model), items: all }
      return { kind: 'ObjectList', fields, names: parts.names?.(model) ?? [], table: noTable }
    },
    change: (type, object): ObjectChange => ({ apiVersion, kind: 'ObjectChange', type, object }),
    state: (model, description, complete) => ({ ...stateChange(description, complete), ...summary(model) }),
  }
  const summary = (model: ShownView) => ({
    counts: verdictCounts(parts.counts(model)),
    unlisted: unlistedOf(model, ''),
  })
  return view as ProgramView
}

/** Makes output of events, the items of an `EventList`. @param nodes - pages of the events */
export function eventView(
  nodes: readonly string[],
  { events }: { events(model: ShownView): readonly Event[] },
): ProgramView {
  const unlisted = (model: ShownView) => nodes.reduce((sum, node) => sum + unlistedOf(model, node), 0)
  const view: ProgramView<EventItem> = {
    items: (model) => events(model).map(eventItem),
    list(model, description, items): Data<EventList> {
      return { kind: 'EventList', fields: { ...description, unlisted: unlisted(model), items }, table: noTable }
    },
    change: (type, event): EventChange => ({ apiVersion, kind: 'EventChange', type, event }),
    state: (model, description, complete) => ({ ...stateChange(description, complete), unlisted: unlisted(model) }),
  }
  return view as ProgramView
}

type Event = Parameters<typeof eventItem>[0]

function stateChange(description: ViewDescription, complete: boolean) {
  return { apiVersion, kind: 'StateChange', type: 'STATE', complete, ...description } as const
}

function unlistedOf({ pages }: ShownView, node: string): number {
  return pages.get(node)?.more ?? 0
}

/** Tables of views are drawn on a screen. */
const noTable = () => ''

/** The objects of `kas get`. */
export function listItems(model: ShownView, now: number): readonly ObjectItem[] {
  return model.children('').map((row) => objectItem(row, now))
}

/** Levels of the deepest tree of owners. */
const maxDepth = 64

/** Lists the objects of `kas tree`, each after its parent. An agent may send anything, also circles. */
export function treeItems(model: ShownView, now: number): readonly ObjectItem[] {
  const items: ObjectItem[] = []
  const seen = new Set<string>()
  const add = (node: string, depth: number): number => {
    const all = model.children(node)
    const rows = all.filter(({ u }) => !seen.has(u))
    for (const { u } of rows) seen.add(u)
    for (const row of rows) {
      const { u, c = 0 } = row
      const place = items.length
      items.push(objectItem(row, now))
      const isOpen = depth < maxDepth && model.pages.has(u)
      const unlisted = isOpen ? add(u, depth + 1) : c
      items[place] = {
        ...(items[place] as ObjectItem),
        children: c,
        unlisted: unlisted > 0 ? unlisted : undefined,
        parent: node === '' ? undefined : node,
      }
    }
    return unlistedOf(model, node) + all.length - rows.length
  }
  add('', 0)
  return items
}
