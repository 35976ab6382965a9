import t from 'tap'
import { ProgramOutput } from '../../../../../../../src/kas/modules/views/cli/output/program-output.ts'
import { listItems, objectView, treeItems } from '../../../../../../../src/kas/modules/views/cli/output/program-view.ts'
import { ShownView } from '../../../../../../../src/kas/modules/views/cli/shown-view.ts'
import { PrintableOutput } from '../../../../../../../src/lib/printable-output.ts'
import type { Row, Update, ViewState } from '../../../../../../../src/proto/views-json.ts'
import { checkedOutput } from '../../../../../../support/output-schema.ts'

const at = Date.parse('2026-11-28T12:00:00Z')
const live: ViewState = { is: 'live', since: at - 60_000 }
const pod = (u: string, more: Partial<Row> = {}): Row => ({ u, k: 'Pod', ns: 'shop', n: u, ...more })
const page = (...order: string[]) => ({ order, counts: {}, more: 0 })

/** Returns a watch with its printed lines: the type of each, and its object or state. */
function watched() {
  let text = ''
  const stdout = new PrintableOutput({ write: (chunk) => (text += chunk) })
  const view = objectView({ items: listItems, counts: ({ counts }) => counts })
  const output = new ProgramOutput(stdout, view, { output: 'json', isWatching: true })
  const model = new ShownView()
  const lines = () => {
    const all = text.split('\n').filter(Boolean)
    text = ''
    return all.map((line) => checkedOutput(line) as Record<string, never>)
  }
  const shows = (isWhole: boolean, lost?: string) => {
    output.printChanges(model, at, { agentId: '42', problems: [], isWhole, lost })
    return lines().map(({ type, object, state }) => [type, object ? (object as Row & { id: string }).id : state])
  }
  const update = (one: Omit<Update, 'at'>, isWhole = true) => {
    model.apply({ at, ...one })
    return shows(isWhole)
  }
  return { update, shows, lines, output, model }
}

t.test('each change is a line: added, modified, deleted; then the state where that is another', async (t) => {
  const { update } = watched()
  const rows = [pod('a'), pod('b')]
  t.strictSame(update({ seq: 1, rows, pages: { '': page('a', 'b') }, state: live }), [
    ['ADDED', 'a'],
    ['ADDED', 'b'],
    ['STATE', 'live'],
  ])
  t.strictSame(update({ seq: 2, rows: [pod('a', { f: ['Running'] })] }), [['MODIFIED', 'a']])
  t.strictSame(update({ seq: 3, rows: [pod('a', { f: ['Running'] })] }), [], 'what is the same is no change')
  t.strictSame(update({ seq: 4, gone: ['b'], pages: { '': page('a') } }), [['DELETED', 'b']])
  t.strictSame(update({ seq: 5, state: { ...live, is: 'stale' } }), [['STATE', 'stale']])
})

t.test('a connection that was lost is said; what is listed again is neither deleted nor added', async (t) => {
  const { update, shows } = watched()
  update({ seq: 1, rows: [pod('a'), pod('b')], pages: { '': page('a', 'b') }, state: live })
  t.strictSame(shows(true, 'the WebSocket ended with 1006'), [['STATE', 'stale']])
  t.strictSame(update({ seq: 1, rows: [], state: { is: 'syncing', since: at } }, false), [['STATE', 'syncing']])
  t.strictSame(update({ seq: 2, rows: [pod('a')], pages: { '': page('a') }, state: live }, true), [
    ['DELETED', 'b'],
    ['STATE', 'live'],
  ])
})

t.test('the state says as of when it is so, and for what reason it is not live', async (t) => {
  const { output, model, lines } = watched()
  const described = (state: ViewState, lost?: string) => {
    model.apply({ seq: 1, at, state })
    output.printChanges(model, at, { agentId: '42', problems: [], isWhole: true, lost })
    const { state: is, asOf, stateSince, stateMessage } = lines()[0] ?? {}
    return [is, asOf, stateSince, stateMessage]
  }
  const [now, before] = ['2026-11-28T12:00:00.000Z', '2026-11-28T11:59:00.000Z']
  t.strictSame(described(live), ['live', now, before, undefined])
  t.strictSame(described({ ...live, is: 'stale', why: 'the agent is away' }), [
    'stale',
    before,
    before,
    'the agent is away',
  ])
  t.strictSame(described({ ...live, is: 'syncing' }), ['syncing', undefined, before, undefined])
  t.strictSame(described(live, 'kas is away'), ['stale', now, now, 'kas is away'])
  t.strictSame(described({ ...live, is: 'stale' }, 'kas is away'), ['stale', before, before, 'kas is away'])
  t.strictSame(described({ ...live, is: 'syncing' }, 'kas is away'), ['stale', undefined, undefined, 'kas is away'])
})

t.test('a tree is a list in which each stands after the one that it belongs to, in circles too', async (t) => {
  const model = new ShownView()
  const rows = [pod('a', { c: 2 }), pod('b', { c: 3 }), pod('c', { c: 1 })]
  const pages = { '': { ...page('a'), more: 5 }, a: page('b', 'a'), b: { ...page('c'), more: 2 } }
  model.apply({ seq: 1, at, rows, pages, state: live })
  const shown = treeItems(model, at).map(({ id, parent, children, unlisted }) => [id, parent, children, unlisted])
  t.strictSame(shown, [
    ['a', undefined, 2, 1],
    ['b', 'a', 3, 2],
    ['c', 'b', 1, 1],
  ])
})
