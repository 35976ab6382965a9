import type { EventRow, Scope } from '../../../../proto/views-json.ts'
import { ageText } from '../../../command/age-text.ts'
import { UsageError } from '../../../command/command.ts'
import { textTable } from '../../../command/text-table.ts'
import { scopeOf } from './asked.ts'
import { membersOf } from './members.ts'
import { printView } from './print-view.ts'
import type { ShownView } from './shown-view.ts'
import type { Layout } from './verdict-text.ts'
import type { ViewsContext } from './views-command.ts'

/** An agent answers so many questions of a view at a time. */
const maxNamespaces = 5

/** What kubectl takes for events. */
export const eventNames: ReadonlySet<string> = new Set(['events', 'event', 'ev'])

/** `kas get events`: of any type, asked of the API server as the caller, the latest first. */
export async function printEvents(context: ViewsContext): Promise<number> {
  const { namespaces: named, ...group } = scopeOf(context.values) ?? {}
  const isOfGroup = Object.keys(group).length > 0
  const members = isOfGroup
    ? await membersOf(context, { ...group, ...(named ? { namespaces: named } : {}) })
    : undefined
  if (members && members.problems.length > 0) {
    for (const problem of members.problems) context.io.stderr.write(`kas: ${problem}\n`)
    return 1
  }
  const namespaces = members ? [...members.namespaces] : (named ?? [''])
  if (namespaces.length > maxNamespaces) {
    throw new UsageError(
      `events: of at most ${maxNamespaces} namespaces at a time, and here are ${namespaces.length}: -n names them`,
    )
  }
  return await printEventsOf(context, namespaces, (event) => members?.has(event) ?? true)
}

function printEventsOf(
  context: ViewsContext,
  namespaces: readonly string[],
  isShown: (event: EventRow) => boolean,
): Promise<number> {
  const nodes = namespaces.map((namespace) => `n:${namespace}`)
  const scope: Scope | undefined = namespaces.includes('') ? undefined : { namespaces }
  const shown = (model: ShownView) => latestFirst(model, nodes).filter(isShown)
  return printView(context, {
    // of the root, Warnings alone are shown
    query: { view: 'events', ...(scope ? { scope } : {}), limit: 1 },
    asked: { query: scope ? { scope } : {}, words: [], names: [] },
    opens: () => false,
    nodes,
    text: (model, layout) => eventsText(model, { nodes, events: shown(model) }, layout),
    json: (model) => ({ state: model.state, events: shown(model) }),
    problems: (model) => {
      const refused = namespaces.filter((namespace) => model.refused.has(`n:${namespace}`))
      if (refused.length === 0 || model.state.refused) return []
      const where = refused.map((namespace) => namespace || 'all namespaces').join(', ')
      return [`events of ${where}: you may not list them, or the agent cannot ask for them`]
    },
    nothing: 'there are no events',
  })
}

function latestFirst(model: ShownView, nodes: readonly string[]): readonly EventRow[] {
  return nodes.flatMap((node) => model.eventsOf(node)).sort((one, other) => other.at - one.at)
}

interface Shown {
  readonly nodes: readonly string[]
  readonly events: readonly EventRow[]
}

function eventsText(model: ShownView, { nodes, events }: Shown, { paint, now }: Layout): string {
  if (events.length === 0) return ''
  const header = ['NAMESPACE', 'LAST SEEN', 'TYPE', 'REASON', 'COUNT', 'OBJECT', 'MESSAGE']
  const table = textTable([header, ...events.map((event) => cells(event, now))])
  const [head = '', ...lines] = table.trimEnd().split('\n')
  const more = nodes.reduce((sum, node) => sum + (model.pages.get(node)?.more ?? 0), 0)
  return [paint.faint(head), ...lines, ...(more > 0 ? [paint.faint(`… ${more} more, older or not read`)] : [])]
    .map((line) => `${line}\n`)
    .join('')
}

function cells({ ns, about: [kind, name], type, reason, text, count, at }: EventRow, now: number): string[] {
  return [ns, ageText(at, now), type, reason, String(count), `${kind}/${name}`, text]
}
