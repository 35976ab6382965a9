import type { EventRow } from '../../../proto/views-json.ts'
import { UsageError } from '../command.ts'
import { textTable } from '../text-table.ts'
import { printView } from './print-view.ts'
import type { ShownView } from './shown-view.ts'
import { ageText, type Paint } from './verdict-text.ts'
import { scopeOf, type ViewsContext } from './views-command.ts'

/** An agent answers so many questions of a view at a time. */
const maxNamespaces = 5

/** What kubectl takes for events. */
export const eventNames: ReadonlySet<string> = new Set(['events', 'event', 'ev', 'Event'])

/** `kas get events`: of any type, asked of the API server as the caller, the latest first. */
export function printEvents(context: ViewsContext): Promise<number> {
  const { scope = {} } = scopeOf(context.values)
  const { namespaces = [''], environment, application } = scope
  if (environment !== undefined || application !== undefined) throw new UsageError('events are narrowed by -n alone')
  if (namespaces.length > maxNamespaces) throw new UsageError(`events: -n at most ${maxNamespaces} times`)
  const nodes = namespaces.map((namespace) => `n:${namespace}`)
  return printView(context, {
    // of the root, Warnings alone are told
    query: { view: 'events', ...(scope.namespaces ? { scope } : {}), limit: 1 },
    opens: () => false,
    nodes,
    text: (model, paint) => eventsText(model, nodes, paint),
    json: (model) => ({ state: model.state, events: latestFirst(model, nodes) }),
    problem: (model) => {
      const refused = namespaces.filter((namespace) => model.refused.has(`n:${namespace}`))
      if (refused.length === 0) return undefined
      const where = refused.map((namespace) => namespace || 'all namespaces').join(', ')
      return `events of ${where}: you may not list them, or the agent cannot ask for them`
    },
  })
}

function latestFirst(model: ShownView, nodes: readonly string[]): readonly EventRow[] {
  return nodes.flatMap((node) => model.eventsOf(node)).sort((one, other) => other.at - one.at)
}

function eventsText(model: ShownView, nodes: readonly string[], paint: Paint): string {
  const shown = nodes.filter((node) => model.pages.has(node))
  const events = latestFirst(model, shown)
  if (events.length === 0) return shown.length > 0 ? 'there are no events\n' : ''
  const header = ['NAMESPACE', 'LAST SEEN', 'TYPE', 'REASON', 'COUNT', 'OBJECT', 'MESSAGE']
  const table = textTable([header, ...events.map((event) => cells(event, model.at))])
  const [head = '', ...lines] = table.trimEnd().split('\n')
  const more = shown.reduce((sum, node) => sum + (model.pages.get(node)?.more ?? 0), 0)
  return [paint.faint(head), ...lines, ...(more > 0 ? [paint.faint(`… ${more} more, older or not read`)] : [])]
    .join('\n')
    .concat('\n')
}

function cells({ ns, about: [kind, name], type, reason, text, count, at }: EventRow, now: number): string[] {
  return [ns, ageText(at, now), type, reason, String(count), `${kind}/${name}`, text]
}
