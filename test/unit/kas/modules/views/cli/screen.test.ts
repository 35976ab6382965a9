import t from 'tap'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { checkedOutput } from '../../../../../support/output-schema.ts'
import { startViewsServer } from './views-server.ts'

const live = { is: 'live', since: 0 } as const
const enter = '\u001b[?1049h'
const leave = '\u001b[?1049l'
const pods = (count: number, word: 'Healthy' | 'Degraded', t = 0) =>
  Array.from({ length: count }, (_, i) => ({
    u: `p${i}`,
    k: 'Pod',
    ns: 'shop',
    n: `web-${String(i).padStart(3, '0')}${'x'.repeat(60)}`,
    t,
    h: ['Healthy', 'Current', i === 0 ? word : 'Healthy'] as const,
  }))

/** Returns the lines that a terminal shows after this output. @throws Error if a line scrolls or wraps */
function shown(text: string, { columns, rows }: { columns: number; rows: number }) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
  const frames = text.split('\u001b[H').map((frame) => frame.replaceAll(/\u001b\[\??[\d;]*[a-zA-Z]/g, ''))
  for (const frame of frames) {
    const lines = frame.split('\r\n')
    if (lines.length > rows || frame.replaceAll('\r\n', '').includes('\n')) throw new Error(`it is scrolled: ${frame}`)
    const wide = lines.find((line) => [...line].length > columns)
    if (wide !== undefined) throw new Error(`it is wrapped: ${wide}`)
  }
  return (frames.at(-1) ?? '').split('\r\n')
}

for (const terminal of [
  { columns: 80, rows: 24 },
  { columns: 200, rows: 60 },
]) {
  t.test(`a watch fills ${terminal.columns} by ${terminal.rows}, and leaves what was there`, async (t) => {
    const { viewer, runWith } = await startViewsServer(t)
    const clock = new ManualClock()
    const { said, code, interrupt } = runWith(
      { clock, terminal, env: { NO_COLOR: '1' } },
      'get',
      'po',
      '-n',
      'shop',
      '-w',
    )
    const one = await viewer()
    await one.request(({ type }) => type === 'open')
    const told = async (seq: number, word: 'Healthy' | 'Degraded') => {
      const before = said.stdout.length
      const rows = pods(100, word, new ManualClock().now())
      const pages = { '': { order: rows.map(({ u }) => u), counts: {}, more: 0 } }
      one.update({ seq, at: clock.now(), rows, pages, state: { ...live, notFollowed: ['Secret', 'Event'] } })
      await t.resolves(until(() => said.stdout.length > before))
      return shown(said.stdout, terminal)
    }
    await told(1, 'Healthy')
    const lines = await told(2, 'Degraded')
    t.match(lines[1], /^✗ web-000/, 'the worst on top')
    t.equal(lines.length, terminal.rows)
    t.match(lines.at(-2), /^… \d+ lines more$/)
    t.equal(lines.at(-1), '2 kinds not followed (-v)')
    for (let i = 0; i < 14; i++) clock.advance(1000)
    const later = shown(said.stdout, terminal)[1]
    if (terminal.columns > 80) t.match(later, /14s$/, 'ages go on, though nothing is said')
    t.equal(said.stdout.split(enter).length, 2, 'on a screen of its own')
    t.notOk(said.stdout.includes(leave))
    interrupt()
    t.equal(await code, 130)
    t.ok(said.stdout.endsWith(leave))
  })
}

t.test('what is refused stands on the screen', async (t) => {
  const { viewer, runWith } = await startViewsServer(t)
  const terminal = { columns: 80, rows: 24 }
  const { said, code, interrupt } = runWith({ clock: new ManualClock(), terminal }, 'get', 'po', '-n', 'shop', '-w')
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  const you = { username: 'bob', groups: [] }
  one.update({
    seq: 1,
    pages: { '': { order: [], counts: {}, more: 0 } },
    state: { ...live, you, refused: [['pods', 'shop']] },
  })
  await until(() => said.stdout.length > 0)
  t.match(shown(said.stdout, terminal)[0], /^you are bob and may not list pods in shop: ask an administrator/)
  interrupt()
  t.equal(await code, 130)
})

t.test('elsewhere a watch writes below what it wrote, and JSON as it is', async (t) => {
  const { viewer, runWith } = await startViewsServer(t)
  const terminal = { columns: 20, rows: 5 }
  const { said, code, interrupt } = runWith({ clock: new ManualClock(), terminal }, 'get', 'po', '-w', '-o', 'json')
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  one.update({ seq: 1, rows: pods(1, 'Healthy'), pages: { '': { order: ['p0'], counts: {}, more: 0 } }, state: live })
  await until(() => said.stdout.includes('STATE'))
  t.notOk(said.stdout.includes('\u001b'))
  const [added, state, ...more] = said.stdout.trimEnd().split('\n')
  t.match(checkedOutput(added as string), { type: 'ADDED', object: { id: 'p0', kind: 'Pod', name: /^web-000x/ } })
  t.match(checkedOutput(state as string), { type: 'STATE', complete: true })
  t.same(more, [])
  interrupt()
  t.equal(await code, 130)
})

/** Waits by turns of the event loop, not by time. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate)
}

t.test('a terminal without UTF-8 gets signs of ASCII; a file gets what it always gets', async (t) => {
  const { viewer, runWith } = await startViewsServer(t)
  const shownIn = async (env: Readonly<Record<string, string>>, isTerminal: boolean, ...argv: string[]) => {
    const terminal = isTerminal ? { terminal: { columns: 120, rows: 20 } } : {}
    const { said, code } = runWith({ env: { ...env, NO_COLOR: '1', KAS_PAGER: '' }, ...terminal }, ...argv)
    const one = await viewer()
    await one.request(({ type }) => type === 'open')
    one.update({
      seq: 1,
      rows: [{ ...pods(1, 'Degraded')[0], t: undefined, f: ['über'] } as never],
      pages: { '': { order: ['p0'], counts: {}, more: 3 } },
      state: live,
    })
    t.equal(await code, 0)
    return said.stdout
  }
  const name = `web-000${'x'.repeat(60)}`
  t.equal(await shownIn({ LANG: 'C' }, true, 'tree', '-n', 'shop'), `x degraded  Pod/${name}  ?ber\n~ 3 more\n`)
  t.equal(await shownIn({ LANG: 'C' }, false, 'tree', '-n', 'shop'), `✗ degraded  Pod/${name}  über\n… 3 more\n`)
  t.equal(await shownIn({ LANG: 'C.UTF-8' }, true, 'tree', '-n', 'shop'), `✗ degraded  Pod/${name}  über\n… 3 more\n`)
  const json = await shownIn({ LC_ALL: 'POSIX' }, true, 'get', 'po', '-o', 'json')
  t.match(json, '"\\u00fcber"')
  t.match(checkedOutput(json), { items: [{ facts: ['über'] }] })
})
