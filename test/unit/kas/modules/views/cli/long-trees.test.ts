import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Row, Update, ViewsRequest } from '../../../../../../src/proto/views-json.ts'
import { type RunOptions, startViewsServer } from './views-server.ts'

/** Trees that do not fit on a screen: their summary, the failed objects only, and a pager. */

const live = { is: 'live', since: 0 } as const
const terminal = { columns: 80, rows: 24 }
const isOpen = ({ type }: ViewsRequest) => type === 'open'

/** Returns roots. The first `sick` are Degraded, each with a cause. */
function roots(count: number, sick: number): Row[] {
  return Array.from({ length: count }, (_, i) => {
    const [ns, n] = ['shop', `web-${i}`]
    const row = { u: `d${i}`, k: 'apps/Deployment', ns, n }
    if (i >= sick) return { ...row, h: ['Healthy', 'Current', 'Healthy'] }
    const z = {
      id: `c${i}`,
      kind: 'ConfigMap',
      namespace: ns,
      name: `settings-${i}`,
      reason: 'Missing',
      text: 'x'.repeat(90),
      next: '',
    }
    return { ...row, h: ['Degraded', 'Failed', 'Degraded'], z }
  })
}

interface Seen {
  readonly rows: readonly Row[]
  readonly counts: Readonly<Record<string, number>>
  readonly more?: number
}

async function look(t: Test, { rows, counts, more = 0 }: Seen, options: RunOptions, ...argv: string[]) {
  const { viewer, runWith } = await startViewsServer(t)
  const { said, code } = runWith({ ...options, env: { NO_COLOR: '1', ...options.env } }, ...argv)
  const one = await viewer()
  const opened = await one.request(isOpen)
  one.update({ seq: 1, rows, pages: { '': { order: rows.map(({ u }) => u), counts, more } }, state: live })
  return { code: await code, lines: said.stdout.split('\n').slice(0, -1), said, opened }
}

t.test('the first screen has the sum, and the causes that fit; the others are counted', async (t) => {
  const seen = { rows: roots(100, 30), counts: { Degraded: 30, Healthy: 370 }, more: 300 }
  for (const argv of [
    ['tree', '-A'],
    ['tree', '-n', 'shop'],
  ]) {
    const { lines, code, said } = await look(t, seen, { terminal }, ...argv)
    t.equal(code, 0, said.stderr)
    t.equal(lines[0], '400 roots: 30 degraded, 370 healthy')
    const screen = lines.slice(0, terminal.rows - 1)
    const causes = screen.filter((line) =>
      /^✗ shop\/Deployment\/web-\d+ {2}ConfigMap settings-\d+: Missing: x+…$/.test(line),
    )
    t.equal(causes.length, 20)
    t.ok(causes.every(({ length }) => length <= terminal.columns))
    t.equal(lines[21], '… 10 more causes')
    t.match(lines[22], /^✗ degraded {2}/, 'then the tree')
  }
})

const screens = [
  { columns: 80, rows: 24, causes: 20 },
  { columns: 200, rows: 60, causes: 30 },
] as const

t.test('what is wrong of 400 rows: as many causes as fit', async (t) => {
  for (const { causes, ...size } of screens) {
    const seen = { rows: roots(30, 30), counts: { Degraded: 30 } }
    const { lines, said } = await look(t, seen, { terminal: size }, 'tree', '-A', '--problems')
    t.equal(lines[0], '30 roots: 30 degraded', said.stderr)
    const shown = lines.slice(1, size.rows - 1).filter((line) => /^✗ shop\/Deployment\/web-\d+ {2}ConfigMap/.test(line))
    t.equal(shown.length, causes)
    t.equal(lines[causes + 1]?.startsWith('…'), causes < 30)
    if (causes < 30) t.equal(lines[causes + 1], `… ${30 - causes} more causes`)
    t.match(lines[causes + (causes < 30 ? 2 : 1)], /^✗ degraded {2}shop\/Deployment/)
  }
})

t.test('roots that are one row, or stand in groups, are counted, and each says its cause', async (t) => {
  const all = roots(50, 30)
  const order = all.map(({ u }) => u)
  const bundle = (p?: string): Row => {
    const id = `b:${p ?? ''}:apps/Deployment`
    return { u: id, k: 'apps/Deployment', n: '', c: 400, w: 'Degraded', ...(p === undefined ? {} : { p }) }
  }
  const well: Row = { u: 'b::Pod', k: 'Pod', n: '', c: 60, w: 'Healthy' }
  const group: Row = { ...(all[0] as Row), u: 'g:a', k: 'Application', ns: '', n: 'a', c: 400, w: 'Degraded' }
  const counts = { Degraded: 30, Healthy: 370 }
  const root = { order: [bundle().u, well.u], counts: { Degraded: 30, Healthy: 430 }, more: 0 }
  const inGroup = {
    '': { order: ['g:a'], counts: { Degraded: 1 }, more: 0 },
    'g:a': { order: [bundle('g:a').u], counts, more: 0 },
  }
  const cases: readonly (readonly [readonly Row[], NonNullable<Update['pages']>, string])[] = [
    [[bundle(), well], { '': root }, '460 roots: 30 degraded, 430 healthy'],
    [[group, bundle('g:a')], inGroup, '400 roots: 30 degraded, 370 healthy'],
  ]
  for (const [rows, pages, total] of cases) {
    for (const { causes, ...size } of screens) {
      const { viewer, runWith } = await startViewsServer(t)
      const { said, code } = runWith({ terminal: size, env: { NO_COLOR: '1', KAS_PAGER: '' } }, 'tree', '-A')
      const one = await viewer()
      await one.request(isOpen)
      one.update({ seq: 1, rows, pages, state: live })
      const id = rows.find(({ u }) => u.startsWith('b:') && u !== well.u)?.u as string
      await one.request((request) => request.type === 'page' && request.node === id)
      t.notOk(
        one.requests.some((request) => request.type === 'page' && request.node === well.u),
        'nothing of it is wrong',
      )
      const members = all.map((row) => ({ ...row, p: id, c: 1 }))
      one.update({ seq: 2, rows: members, pages: { [id]: { order, counts, more: 350 } } })
      for (let i = 0; i < 30; i++) await one.request((request) => request.type === 'page' && request.node === `d${i}`)
      const open = order.slice(0, 30).map((u) => [u, { order: [], counts: {}, more: 0 }] as const)
      one.update({ seq: 3, pages: Object.fromEntries(open) })
      t.equal(await code, 0, said.stderr)
      const lines = said.stdout.split('\n')
      t.equal(lines[0], total)
      const shown = lines
        .slice(1, size.rows - 1)
        .filter((line) => /^✗ shop\/Deployment\/web-\d+ {2}ConfigMap/.test(line))
      t.equal(shown.length, causes)
      if (causes < 30) t.equal(lines[causes + 1], `… ${30 - causes} more causes`)
      t.match(said.stdout, /^ *└─ … 370 more$/m, 'those that are well')
    }
  }
})

t.test('causes of roots that are on no page are not said to be counted', async (t) => {
  const few = { rows: roots(100, 100), counts: { Degraded: 130 }, more: 30 }
  const { lines } = await look(t, few, { terminal }, 'tree', '-A')
  t.equal(lines[21], '… 80 more causes, and those of roots that are not shown')
  const pod = { id: 'p', kind: 'Pod', namespace: 'shop', reason: 'Evicted', text: 'no room', next: '' }
  const alike = roots(100, 100).map((row, i) => ({ ...row, z: { ...pod, name: `pod-${i}` } }))
  const each = await look(t, { ...few, rows: alike }, { terminal }, 'tree', '-A')
  t.equal(each.lines[21], '… 80 more causes, and those of roots that are not shown', 'a workload each')
  const same = alike.map((row, i) => ({ ...row, k: 'Pod', n: `pod-${i}` }))
  const one = await look(t, { ...few, rows: same }, { terminal }, 'tree', '-A')
  t.strictSame(one.lines.slice(2, 3), ['… and those of roots that are not shown'])
})

t.test('what has room has no causes above it, and where nobody looks at a screen there is the sum alone', async (t) => {
  const seen = { rows: roots(3, 1), counts: { Degraded: 1, Healthy: 2 } }
  const short = await look(t, seen, { terminal }, 'tree', '-A')
  t.strictSame(short.lines.slice(0, 2), ['3 roots: 1 degraded, 2 healthy', short.lines[1]])
  t.match(short.lines[1], /^✗ degraded {2}/)
  t.match((await look(t, seen, { terminal }, 'tree', '-n', 'shop')).lines[0], /^✗ degraded {2}/)
  const piped = await look(t, { rows: roots(100, 30), counts: { Degraded: 30, Healthy: 70 } }, {}, 'tree', '-A')
  t.equal(piped.lines[0], '100 roots: 30 degraded, 70 healthy')
  t.match(piped.lines[1], /^✗ degraded {2}/)
  t.match((await look(t, seen, {}, 'tree', 'deployment/web-0', '-n', 'shop')).lines[0], /^✗ degraded {2}/)
})

t.test('--problems asks for what is not well alone, and says so where there is nothing', async (t) => {
  const filter = { verdicts: ['Progressing', 'Missing', 'Degraded', 'Unknown'] }
  for (const argv of [
    ['tree', '-A'],
    ['get', 'deployments'],
    ['tree', '--application', 'shop'],
  ]) {
    const { opened, said, code } = await look(t, { rows: [], counts: {} }, {}, ...argv, '--problems')
    t.match(opened, { filter })
    t.strictSame([code, said.stdout], [0, ''])
    t.equal(said.stderr, 'nothing that you may list is progressing, missing, degraded or unknown\n')
  }
  const { run } = await startViewsServer(t)
  const { said, code } = run('tree', 'deployment/web', '--problems')
  t.equal(await code, 2)
  t.match(said.stderr, /--problems chooses from all objects, and here one is named/)
})

t.test('a tree goes through a pager on a terminal alone', async (t) => {
  const seen = { rows: roots(100, 1), counts: { Degraded: 1, Healthy: 99 } }
  const paged = async (env: Record<string, string>, ...argv: string[]) => {
    const file = join(t.testdir({ [`${argv.length}${Object.keys(env).join('')}`]: {} }), 'paged')
    const options = { terminal, env: { KAS_PAGER: `cat > '${file}'`, ...env } }
    const { said, code } = await look(t, seen, options, ...argv)
    t.equal(code, 0)
    return { said, file: existsSync(file) ? readFileSync(file, 'utf8') : undefined }
  }
  const { said, file = '' } = await paged({}, 'tree', '-A')
  t.equal(said.stdout, '')
  t.match(file, /^100 roots: 1 degraded, 99 healthy\n/)
  for (const [env, argv] of [
    [{}, ['tree', '-A', '--no-pager']],
    [{ TERM: 'dumb' }, ['tree', '-A']],
    [{ KAS_PAGER: '' }, ['tree', '-A']],
    [{ KAS_PAGER: 'cat' }, ['tree', '-A']],
    [{ KAS_PAGER: 'no-such-pager 2> /dev/null' }, ['tree', '-A']],
  ] as const) {
    const direct = await paged(env, ...argv)
    t.strictSame([direct.said.stdout, direct.file], [file, undefined], JSON.stringify(env))
  }
  const json = await paged({}, 'tree', '-A', '-o', 'json')
  t.match(json.said.stdout, /^\{/)
  const piped = await look(t, seen, { env: { KAS_PAGER: 'false' } }, 'tree', '-A')
  t.match(piped.said.stdout, /^100 roots/)
})
