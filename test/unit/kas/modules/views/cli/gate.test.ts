import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { ArgoWord, Query, Row } from '../../../../../../src/proto/views-json.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { checkedOutput } from '../../../../../support/output-schema.ts'
import { startViewsServer, type Viewer } from './views-server.ts'

/** Tests `kas health` as the gate of a pipeline. */

const live = { is: 'live', since: 0 } as const
const row = (k: string, n: string, word: ArgoWord, more: Partial<Row> = {}): Row => ({
  u: `${k}/${n}`,
  k,
  ns: 'shop',
  n,
  h: ['Healthy', 'Current', word],
  ...more,
})
const why = (reason: string, more: Partial<NonNullable<Row['z']>> = {}): Partial<Row> => ({
  z: { kind: 'Pod', namespace: 'shop', name: 'web-1', id: 'p', reason, text: 'container app', next: '', ...more },
})
const say = (one: Viewer, seq: number, rows: readonly Row[], gone: readonly string[] = []) =>
  one.update({ seq, rows, gone, pages: { '': { order: rows.map(({ u }) => u), counts: {}, more: 0 } }, state: live })
/** Waits by turns of the event loop, not by time. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate)
}

async function start(
  t: Parameters<typeof startViewsServer>[0],
  argv: readonly string[],
  stdin: string[] = [],
  more = {},
) {
  const server = await startViewsServer(t, more)
  const clock = new ManualClock()
  const { said, code } = server.runWith({ clock, stdin }, 'health', ...argv)
  const one = await server.viewer()
  const query = (await one.request(({ type }) => type === 'open')) as Query
  /** Waits until stderr contains the text. */
  const heard = (text: string) => until(() => said.stderr.includes(text))
  return { clock, said, code, one, query, heard, asked: server.asked }
}

t.test('what is degraded ends the wait long before its time, with a line for each change', async (t) => {
  const { clock, said, code, one, heard } = await start(t, ['-n', 'shop', '--wait', '10m', '--logs', '0'])
  say(one, 1, [row('apps/Deployment', 'web', 'Progressing')])
  await heard('◐ progressing shop/Deployment/web')
  say(one, 2, [row('apps/Deployment', 'web', 'Degraded', why('OOMKilled'))])
  await heard('✗ degraded shop/Deployment/web: OOMKilled: container app')
  clock.advance(4999)
  say(one, 3, [row('apps/Deployment', 'web', 'Degraded', why('OOMKilled')), row('apps/Deployment', 'db', 'Healthy')])
  await heard('✓ healthy shop/Deployment/db')
  clock.advance(1)
  t.equal(await code, 4)
  t.equal(said.stderr.trimEnd().split('\n').length, 3)
  t.match(
    said.stdout,
    /^✗ degraded \(1 degraded, 1 healthy\)\n✗ shop\/Deployment\/web\n {4}Pod web-1: OOMKilled: container app\n/,
  )
})

t.test('with --no-fail-fast it may recover', async (t) => {
  const { clock, code, one, heard } = await start(t, ['--wait', '1m', '--no-fail-fast', '--stable', '20s'])
  say(one, 1, [row('apps/Deployment', 'web', 'Degraded', why('OOMKilled'))])
  await heard('degraded')
  clock.advance(14_000)
  say(one, 2, [row('apps/Deployment', 'web', 'Healthy')])
  await heard('healthy')
  clock.advance(10_000)
  say(one, 3, [row('Pod', 'p', 'Healthy', { f: ['1 restart'] })])
  await heard('gone: ✓ healthy shop/Deployment/web')
  clock.advance(4_999)
  say(one, 4, [row('Pod', 'p', 'Healthy', { f: ['2 restarts'] }), row('Pod', 'q', 'Suspended')])
  await heard('suspended')
  clock.advance(0)
  t.equal(clock.now(), new ManualClock().now() + 28_999, 'a restart begins it anew')
  one.cut()
  await heard('the WebSocket ended')
  clock.advance(60_000)
  t.equal(await code, 5, 'what was lost is not known to hold')
})

t.test('time over, nothing of it, and what is ignored', async (t) => {
  const cases: [argv: string[], rows: Row[], code: number][] = [
    [['--wait', '10s'], [row('Pod', 'a', 'Progressing')], 3],
    [['--wait', '10s'], [], 5],
    [['--wait', '10s'], [row('Pod', 'a', 'Degraded', why('OOMKilled')), row('Pod', 'b', 'Healthy')], 4],
    [['--wait', '10s', '--ignore', 'pods'], [row('Pod', 'a', 'Degraded'), row('batch/Job', 'b', 'Healthy')], 0],
    [['--wait', '10s', '--ignore', 'pod/a'], [row('Pod', 'a', 'Degraded'), row('Pod', 'b', 'Healthy')], 0],
    [
      ['--wait', '10s', '--ignore', 'OOMKilled,x'],
      [row('Pod', 'a', 'Degraded', why('OOMKilled')), row('Pod', 'b', 'Healthy')],
      0,
    ],
    [['--wait', '10s', '--ignore', 'pod/b'], [row('Pod', 'a', 'Degraded', why('OOMKilled'))], 4],
    [['--wait', '10s'], [row('Service', 'a', 'Progressing', why('LoadBalancerPending'))], 0],
    [['--wait', '10s', '--addresses'], [row('Service', 'a', 'Progressing', why('LoadBalancerPending'))], 3],
    [['--wait', '10s'], [row('Pod', 'a', 'Unknown'), row('Pod', 'b', 'Degraded')], 4],
    [['--wait', '10s'], [row('Pod', 'a', 'Unknown'), row('Pod', 'b', 'Healthy')], 5],
    [['--wait', '10s'], [row('ConfigMap', 'a', '')], 5],
  ]
  for (const [argv, rows, expected] of cases) {
    const { clock, code, one, said } = await start(t, [...argv, '--logs', '0'])
    say(one, 1, rows)
    const kinds = rows.filter(
      ({ k, n }) => !argv.some((arg) => [k.toLowerCase(), `${k}/${n}`.toLowerCase()].includes(arg)),
    )
    await until(() => kinds.length === 0 || said.stderr !== '' || one.requests.length > 1 || rows.length === 0)
    await new Promise(setImmediate)
    clock.advance(5000)
    clock.advance(5000)
    t.equal(await code, expected, `${argv.join(' ')} ${JSON.stringify(rows.map(({ k, n, h }) => [k, n, h?.[2]]))}`)
  }
})

t.test('what stands in an application is judged, and not the application', async (t) => {
  const { clock, said, code, one, heard } = await start(t, ['-n', 'shop', '--wait', '1m', '--ignore', 'deploy/web'])
  const group = {
    u: 'g:application/shop',
    k: 'Application',
    n: 'shop',
    h: ['Degraded', 'Failed', 'Degraded'],
    c: 3,
  } as const
  one.update({
    seq: 1,
    rows: [group],
    pages: { '': { order: [group.u], counts: { Degraded: 1 }, more: 0 } },
    state: live,
  })
  await one.request((request) => request.type === 'page' && request.node === group.u)
  const rows = [row('apps/Deployment', 'web', 'Degraded'), row('apps/Deployment', 'db', 'Healthy')]
  const page = { order: rows.map(({ u }) => u), counts: { Degraded: 1, Healthy: 2 }, more: 1 }
  one.update({ seq: 2, rows, pages: { [group.u]: page } })
  await heard('✓ healthy shop/Deployment/db')
  clock.advance(5000)
  t.equal(await code, 0)
  t.equal(said.stdout, '✓ healthy (2 healthy)\n')
})

t.test('what is hung to an object of no namespace is judged beside it, of the whole', async (t) => {
  const node = (w: ArgoWord) => row('Node', 'n1', 'Healthy', { ns: '', w, c: 1 })
  const custom = row('example.com/Site', 's', 'Healthy', { ns: '', w: 'Degraded', c: 1 })
  const old = row('apps/Deployment', 'web', 'Healthy', { w: 'Degraded', c: 1 })
  const cases: [argv: string[], rows: Row[], code: number][] = [
    [[], [node('Degraded')], 4],
    [[], [node('Healthy')], 0],
    [['node/n1'], [node('Degraded')], 0],
    [[], [custom, old], 0],
    [[], [{ ...node('Degraded'), u: 'gc', k: 'gateway.networking.k8s.io/GatewayClass' }], 4],
  ]
  for (const [argv, rows, expected] of cases) {
    const { clock, code, one, said } = await start(t, [...argv, '--wait', '10s', '--logs', '0'])
    say(one, 1, rows)
    await until(() => said.stderr !== '')
    clock.advance(5000)
    clock.advance(5000)
    t.equal(await code, expected, `${argv.join(' ')} ${rows.map(({ n, w }) => `${n} ${w}`)}`)
    if (rows[0]?.k === 'Node' && expected === 4) {
      t.match(said.stderr, /^\S+ ✗ degraded below Node\/n1$/m, 'what is below is not the failure of the Node')
      t.match(said.stdout, /^✗ below Node\/n1$/m)
    }
  }
})

t.test('labels of an environment are believed of one namespace, or of those that are named', async (t) => {
  const mine = row('apps/Deployment', 'web', 'Healthy')
  const decoy = row('apps/Deployment', 'decoy', 'Degraded', { ns: 'mallory' })
  const role = row('ClusterRole', 'web', 'Healthy', { ns: '' })
  const cases: [argv: string[], rows: Row[], code: number][] = [
    [[], [mine, decoy], 5],
    [[], [mine, { ...decoy, h: ['Healthy', 'Current', 'Healthy'] }], 5],
    [['-A'], [mine, decoy], 4],
    [['-n', 'shop,mallory'], [mine, decoy], 4],
    [[], [mine, role], 0],
  ]
  const many: Row = { u: 'b::apps/Deployment', k: 'apps/Deployment', n: '', c: 61, w: 'Healthy' }
  for (const [argv, rows, expected] of cases) {
    const { clock, code, one, said } = await start(t, ['--environment', '7/x', ...argv, '--wait', '1m', '--logs', '0'])
    say(one, 1, rows)
    await until(() => said.stderr !== '')
    clock.advance(5000)
    t.equal(await code, expected, `${argv.join(' ')} ${rows.map(({ n, h }) => `${n} ${h?.[2]}`)}`)
    if (expected === 5) t.match(said.stderr.replaceAll(/\s+/g, ' '), 'has objects in mallory, shop, where anyone')
  }
  for (const argv of [[], ['-n', 'shop']]) {
    const { clock, code, one, said } = await start(t, ['--environment', '7/x', ...argv, '--wait', '1m', '--logs', '0'])
    const pages = { '': { order: [mine.u, many.u], counts: { Healthy: 62 }, more: 0 } }
    one.update({ seq: 1, rows: [mine, many], pages, state: live })
    await until(() => said.stderr !== '' || said.stdout !== '')
    clock.advance(5000)
    t.equal(await code, argv.length > 0 ? 0 : 5, `many in one row, ${argv.join(' ')}`)
    if (argv.length === 0)
      t.match(said.stderr.replaceAll(/\s+/g, ' '), 'has objects in shop, more than is shown, where')
  }
})

const manifests = [
  'apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: web }\n---\n',
  'apiVersion: v1\nkind: List\nitems:\n- { apiVersion: v1, kind: Service, metadata: { name: web, namespace: bank } }\n',
  '---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: { name: web }\n',
  '---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: { name: widgets.example.com }\n',
  '---\napiVersion: example.com/v1\nkind: Widget\nmetadata: { name: one }\n',
].join('')

t.test('just the objects of a file, a CRD and its instances too: what is not there yet is waited for', async (t) => {
  const { clock, said, code, one, query, heard } = await start(
    t,
    ['-f', '-', '-n', 'shop', '--wait', '5m'],
    [manifests],
  )
  t.strictSame(query.objects, [
    { kind: 'apps/Deployment', name: 'web', namespace: 'shop' },
    { kind: 'Service', name: 'web', namespace: 'bank' },
    { kind: 'rbac.authorization.k8s.io/ClusterRole', name: 'web' },
    { kind: 'apiextensions.k8s.io/CustomResourceDefinition', name: 'widgets.example.com' },
    { kind: 'example.com/Widget', name: 'one' },
  ])
  t.equal(query.scope, undefined)
  const definition = row('apiextensions.k8s.io/CustomResourceDefinition', 'widgets.example.com', 'Healthy', { ns: '' })
  const rows = [
    row('apps/Deployment', 'web', 'Healthy'),
    row('Service', 'web', 'Healthy', { ns: 'bank' }),
    row('rbac.authorization.k8s.io/ClusterRole', 'web', '', { ns: '' }),
    definition,
  ]
  one.update({
    seq: 1,
    rows,
    pages: { '': { order: rows.map(({ u }) => u), counts: {}, more: 0 } },
    state: { ...live, unknown: [['example.com/Widget', '']] },
  })
  await heard('example.com/Widget/one is not there')
  clock.advance(14_000)
  say(one, 2, [...rows, row('example.com/Widget', 'one', '')])
  await heard('· shop/example.com/Widget/one')
  clock.advance(5000)
  t.equal(await code, 0)
  t.match(said.stdout, /^✓ healthy \(3 healthy, 2 without a verdict\)\n$/)
})

t.test('what is deleted meanwhile is waited for, and not there in the end', async (t) => {
  const { clock, said, code, one, heard } = await start(t, ['deploy/web', '-n', 'shop', '--wait', '14s'])
  say(one, 1, [row('apps/Deployment', 'web', 'Progressing')])
  await heard('progressing')
  say(one, 2, [], ['apps/Deployment/web'])
  await heard('gone: ◐ progressing shop/Deployment/web')
  t.match(said.stderr, /deploy\/web is not there/)
  clock.advance(14_000)
  t.equal(await code, 5)
  t.match(said.stdout, /○ shop\/deploy\/web is not there|○ deploy\/web is not there/)
})

t.test('an older object, or an older generation of it, is not judged', async (t) => {
  const applied = JSON.stringify({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', namespace: 'shop', uid: 'new', generation: 3 },
  })
  const { clock, code, one, heard } = await start(t, ['-f', '-', '--wait', '5m'], [applied])
  say(one, 1, [row('apps/Deployment', 'web', 'Degraded', { u: 'old', g: 9 })])
  await heard('is not there')
  say(one, 2, [row('apps/Deployment', 'web', 'Healthy', { u: 'new', g: 2 })], ['old'])
  clock.advance(6000)
  say(one, 3, [row('apps/Deployment', 'web', 'Healthy', { u: 'new', g: 3 })])
  await heard('✓ healthy')
  clock.advance(5000)
  t.equal(await code, 0)
})

t.test('a kind that is not followed holds up nothing; files and folders are read', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'kas-gate-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const object = (kind: string, name: string) => JSON.stringify({ apiVersion: 'v1', kind, metadata: { name } })
  await writeFile(join(folder, 'a.json'), object('Secret', 'token'))
  await writeFile(join(folder, 'b.yaml'), object('Service', 'web'))
  await writeFile(join(folder, 'c.txt'), 'no object')
  const { clock, said, code, one, query, heard } = await start(t, ['-f', folder, '--wait', '1m'])
  t.strictSame(
    query.objects?.map(({ kind, name, namespace }) => [kind, name, namespace]),
    [
      ['Secret', 'token', 'default'],
      ['Service', 'web', 'default'],
    ],
  )
  const web = row('Service', 'web', 'Healthy', { ns: 'default' })
  one.update({
    seq: 1,
    rows: [web],
    pages: { '': { order: [web.u], counts: {}, more: 0 } },
    state: { ...live, notFollowed: ['Secret'] },
  })
  await heard('✓ healthy')
  clock.advance(5000)
  t.equal(await code, 0)
  t.match(said.stderr, /Secret\/token is not judged: its kind is not followed/)
})

t.test(
  'each cause once, with its roots, its last Warnings and the last lines of its log, asked as the caller',
  async (t) => {
    const item = (reason: string, at: string, count: number) => ({
      reason,
      message: `says ${reason}\u001b[2J`,
      count,
      lastTimestamp: at,
      metadata: { creationTimestamp: at },
    })
    const items = Array.from({ length: 7 }, (_, i) => item(`Reason${i}`, `2026-06-01T00:0${i}:00Z`, i + 1))
    const answer = (path: string) => {
      if (path.startsWith('/api/v1/namespaces/shop/events?')) return { status: 200, body: JSON.stringify({ items }) }
      if (path.includes('/pods/web-1/log?')) return { status: 200, body: 'one\npanic: no \u001b[2Jluck\n' }
      return { status: 403, body: JSON.stringify({ message: 'you may not' }) }
    }
    const next = 'kubectl -n shop logs web-1 -c app --previous'
    const { code, said, one, asked } = await start(t, ['--logs', '2'], [], { answer })
    say(one, 1, [
      row('apps/Deployment', 'web', 'Degraded', why('CrashLoopBackOff', { next })),
      row('apps/Deployment', 'web-2', 'Degraded', why('CrashLoopBackOff', { next })),
      row('Node', 'n1', 'Degraded', {
        ns: '',
        z: {
          kind: 'Node',
          namespace: '',
          name: 'n1',
          id: '',
          reason: 'NodeNotReady',
          text: '',
          next: 'kubectl describe node n1',
        },
      }),
    ])
    t.equal(await code, 4)
    t.match(said.stdout, /^✗ degraded \(3 degraded\)\n✗ shop\/Deployment\/web\n✗ shop\/Deployment\/web-2\n/)
    t.match(said.stdout, /Reason6 \(7 times\): says Reason6\?\[2J\n/)
    t.notMatch(said.stdout, /Reason1 /, 'five of them')
    t.match(
      said.stdout,
      / {4}last lines of web-1, container app, before its last start:\n {6}one\n {6}panic: no \?\[2Jluck\n/,
    )
    t.match(
      said.stdout,
      /Node\/n1\n {4}NodeNotReady\n {4}next: kubectl describe node n1\n {4}its events cannot be read: kas answered 403: you may not\n/,
    )
    t.match(
      asked.find((path) => path.includes('/log?')),
      /container=app&tailLines=2&limitBytes=65536&previous=true$/,
    )
    t.match(decodeURIComponent(asked[0] ?? ''), /involvedObject.kind=Pod,involvedObject.name=web-1,type=Warning/)
  },
)

t.test('events that say the same are one, and on a terminal none loses its end', async (t) => {
  const at = Date.parse('2026-06-01T00:05:00Z')
  const item = (reason: string, message: string, minute: number, count = 1) => ({
    reason,
    message,
    count,
    lastTimestamp: `2026-06-01T00:0${minute}:00Z`,
    metadata: {},
  })
  const refused = (pod: string) => `Error creating: pods "api-5b65b7456c-${pod}" is forbidden: failed quota: compute`
  const listed: Record<string, ReturnType<typeof item>[]> = {
    'ReplicaSet/api/Warning': [
      item('FailedCreate', refused('mdd7v'), 1),
      item('FailedCreate', `(combined from similar events): ${refused('6vbml')}`, 3, 8),
      item('FailedCreate', `it was so before: ${'a word or two '.repeat(40)}, and here is the end`, 2),
    ],
    'Node/n1/Warning': [item('InvalidDiskCapacity', 'of the last start', 1), item('NodeNotReady', 'it is silent', 5)],
    'PersistentVolumeClaim/data/Normal': [item('ExternalProvisioning', 'waits for ebs.csi.aws.com', 4)],
    'Pod/web-1/Normal': [item('Scheduled', 'it was put on n1', 4)],
  }
  const answer = (path: string) => {
    const fields = Object.fromEntries(
      (new URLSearchParams(path.split('?')[1]).get('fieldSelector') ?? '').split(',').map((one) => one.split('=')),
    )
    const items = listed[`${fields['involvedObject.kind']}/${fields['involvedObject.name']}/${fields.type}`] ?? []
    return { status: 200, body: JSON.stringify({ items }) }
  }
  const { viewer, runWith } = await startViewsServer(t, { answer })
  const { said, code } = runWith(
    { terminal: { columns: 80, rows: 24 }, env: { NO_COLOR: '1' } },
    'health',
    '-n',
    'shop',
  )
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  const cause = (kind: string, name: string, namespace = 'shop') => why('Failed', { kind, name, namespace, since: at })
  say(one, 1, [
    row('apps/Deployment', 'api', 'Degraded', cause('apps/ReplicaSet', 'api')),
    row('apps/StatefulSet', 'db', 'Degraded', cause('PersistentVolumeClaim', 'data')),
    row('apps/StatefulSet', 'far', 'Progressing', cause('Node', 'n1', '')),
    row('apps/Deployment', 'web', 'Degraded', cause('Pod', 'web-1')),
    row('Service', 'web', 'Healthy'),
  ])
  t.equal(await code, 4)
  const lines = said.stdout.split('\n')
  t.ok(lines.every((line) => line.length <= 80))
  t.match(lines[0], '✗ degraded (3 degraded, 1 progressing, 1 healthy)')
  const text = said.stdout.replaceAll(/\s+/g, ' ')
  t.match(text, ` FailedCreate (9 times): ${refused('6vbml')} `)
  t.notMatch(text, 'mdd7v')
  t.match(text, /FailedCreate: it was so before: .* … .*, and here is the end /)
  t.match(text, 'NodeNotReady: it is silent')
  t.notMatch(text, 'InvalidDiskCapacity', 'it is older than what is wrong')
  t.match(text, 'ExternalProvisioning: waits for ebs.csi.aws.com')
  t.notMatch(text, 'Scheduled', 'of others Warnings alone are told')
})

t.test('one object is not there for two: words that the agent alone knows need one each', async (t) => {
  const flux = 'kustomize.toolkit.fluxcd.io/Kustomization'
  const helm = 'helm.toolkit.fluxcd.io/HelmRelease'
  const known = { [flux]: ['v1', 'kustomizations'], [helm]: ['v2', 'helmreleases'] } as const
  const cases: [argv: string[], there: string[], missing: string | undefined, more?: object][] = [
    [['ks/web', 'hr/web'], [flux], 'hr/web'],
    [['ks/web', 'hr/web'], [flux, helm], undefined],
    [['kustomizations/web', 'helmreleases/web'], [flux], 'helmreleases/web'],
    [['kustomization/web', 'hr/web'], [flux], 'hr/web'],
    [['ks/web', 'helmrelease/web'], [helm], 'ks/web'],
    [['ks/web', 'deploy/web'], ['apps/Deployment'], 'ks/web'],
    [['ks/web', 'deploy/web'], ['apps/Deployment'], 'ks/web', { notFollowed: [flux, 'Secret'] }],
    [['ks/web', 'ks/web'], [flux], undefined],
  ]
  for (const [argv, there, missing, more] of cases) {
    const { clock, said, code, one, heard } = await start(t, [...argv, '-n', 'shop', '--wait', '10s', '--logs', '0'])
    const rows = there.map((kind) => row(kind, 'web', 'Healthy'))
    one.update({
      seq: 1,
      rows,
      pages: { '': { order: rows.map(({ u }) => u), counts: {}, more: 0 } },
      kinds: known,
      state: { ...live, ...more },
    })
    await heard('✓ healthy')
    clock.advance(5000)
    clock.advance(5000)
    t.equal(await code, missing === undefined ? 0 : 5, `${argv.join(' ')}: ${there.join(' ')}`)
    if (missing) t.match(said.stderr, `${missing} is not there`)
  }
})

t.test('what anybody may call so in his own namespace is not asked for by its name alone', async (t) => {
  const { run } = await startViewsServer(t)
  const { said, code } = run('health', 'deploy/web')
  t.equal(await code, 2)
  t.match(said.stderr, /deploy\/web: which namespace\? -n NAMESPACE, or -A for all/)
  for (const argv of [['-A'], ['--environment', '7/production'], ['-n', 'shop']]) {
    const { code: asked, one } = await start(t, ['deploy/web', ...argv])
    say(one, 1, [row('apps/Deployment', 'web', 'Degraded')])
    t.equal(await asked, 4, argv.join(' '))
  }
  const { code: ofNode, one } = await start(t, ['node/n1'])
  say(one, 1, [row('Node', 'n1', 'Degraded', { ns: '' })])
  t.equal(await ofNode, 4)
})

t.test('the namespace of the context is that of what is named, as kubectl has it', async (t) => {
  const context = { namespace: 'shop' }
  const named = { namespaces: ['shop'] }
  const cases: [argv: string[], asked: object][] = [
    [['deploy/web'], { objects: [{ kind: 'deploy', name: 'web' }], scope: named }],
    [['deploy/web', '-n', 'bank'], { objects: [{ kind: 'deploy', name: 'web' }], scope: { namespaces: ['bank'] } }],
    [['deploy/web', '-A'], { objects: [{ kind: 'deploy', name: 'web' }], scope: undefined }],
    [['node/n1'], { objects: [{ kind: 'node', name: 'n1' }], scope: undefined }],
    [['-l', 'app=web'], { labels: 'app=web', scope: named }],
    [['--environment', '7/production'], { scope: { environment: '7/production' } }],
    [['--application', 'web'], { scope: { application: 'web' } }],
  ]
  for (const [argv, asked] of cases) {
    const { query, one, code } = await start(t, [...argv, '--logs', '0'], [], context)
    t.match(query, asked, argv.join(' '))
    if (!('scope' in asked) || asked.scope === undefined) t.equal(query.scope, undefined, argv.join(' '))
    say(one, 1, [row('apps/Deployment', 'web', 'Degraded'), row('Node', 'n1', 'Degraded', { ns: '' })])
    t.equal(await code, 4, argv.join(' '))
  }
  const { said, one, code } = await start(t, ['--logs', '0'], [], context)
  say(one, 1, [row('apps/Deployment', 'web', 'Degraded')])
  t.equal(await code, 4)
  t.match(said.stderr, /only namespace shop of the kubeconfig's context is judged: -A takes all/)
  const manifest = '{ apiVersion: v1, kind: Pod, metadata: { name: web } }'
  const { query, one: other, code: ofFile } = await start(t, ['-f', '-', '--logs', '0'], [manifest], context)
  t.match(query.objects, [{ namespace: 'shop', name: 'web' }])
  say(other, 1, [row('Pod', 'web', 'Degraded')])
  t.equal(await ofFile, 4)
})

t.test('verdicts by which the agent counts are others’: they are taken of what is not shown alone', async (t) => {
  const { clock, said, code, one, heard } = await start(t, ['-n', 'shop', '--wait', '1m'])
  const rows = [row('apps/Deployment', 'web', 'Healthy', { h: ['Degraded', 'Failed', 'Healthy'] })]
  const order = rows.map(({ u }) => u)
  one.update({ seq: 1, rows, pages: { '': { order, counts: { Degraded: 1 }, more: 0 } }, state: live })
  await heard('✓ healthy')
  clock.advance(5000)
  t.equal(await code, 0)
  t.equal(said.stdout, '✓ healthy (1 healthy)\n')
  const { code: more, one: other } = await start(t, ['-n', 'shop'])
  other.update({ seq: 1, rows, pages: { '': { order, counts: { Healthy: 1, Degraded: 1 }, more: 1 } }, state: live })
  t.equal(await more, 4)
  const bundle: Row = { u: 'b::Pod', k: 'Pod', n: '', c: 60, w: 'Degraded' }
  const { code: bundled, one: third } = await start(t, ['-n', 'shop'])
  const pages = { '': { order: [...order, bundle.u], counts: { Healthy: 60, Degraded: 1 }, more: 0 } }
  third.update({ seq: 1, rows: [...rows, bundle], pages, state: live })
  t.equal(await bundled, 4, 'nor are they in one row with others')
})

t.test('culprits that are none are asked for nothing, and no command is shown that is not a known one', async (t) => {
  const nexts = [
    'kubectl -n shop logs web-1; rm -rf ~',
    'kubectl -n shop delete pod web-1',
    'kubectl -n shop rollout undo deployment/web',
    'kubectl -n shop get secret db -o jsonpath={.data}',
    'kubectl -n shop patch configmap stuck -p x',
    'kubectl -n shop logs web-1 -c $(id)',
    'kubectl -n shop describe pod --as=root',
    'kubectl -n shop logs web-1\nid',
    'curl example.com',
  ]
  for (const next of nexts) {
    const { code, said, one, asked } = await start(t, ['-n', 'shop'])
    say(one, 1, [row('Pod', 'web', 'Degraded', why('CrashLoopBackOff', { next, namespace: '..', name: '..' }))])
    t.equal(await code, 4)
    t.notMatch(said.stdout, /next:/, next)
    t.strictSame(asked, [])
  }
  const next = 'kubectl -n bank logs other -c app'
  const { code, one, asked } = await start(t, ['-n', 'shop'])
  say(one, 1, [row('Pod', 'web', 'Degraded', why('NonZeroExit', { next }))])
  t.equal(await code, 4)
  t.ok(asked.some((path) => path.startsWith('/api/v1/namespaces/shop/pods/web-1/log?container=app&')))
  t.notOk(
    asked.some((path) => path.includes('bank')),
    'of the culprit, whatever the command says',
  )
})

t.test('what is no manifest is a mistake of the command line', async (t) => {
  const { runWith } = await startViewsServer(t)
  const cases: [stdin: string, stderr: RegExp][] = [
    ['', /there is no object/],
    ['{', /-f stdin: /],
    ['kind: Pod', /an object has apiVersion, kind and metadata.name/],
    ['apiVersion: v1\nkind: Pod\nmetadata: { name: [] }', /metadata.name/],
    ['7', /an object has apiVersion/],
    [`a: &a [1]\nb: [${'*a,'.repeat(200)}]`, /-f stdin: |an object has/],
  ]
  for (const [stdin, stderr] of cases) {
    const { said, code } = runWith({ stdin: [stdin] }, 'health', '-f', '-')
    t.equal(await code, 2, stdin)
    t.match(said.stderr, stderr)
  }
  const many = Array.from({ length: 501 }, (_, i) => `apiVersion: v1\nkind: Pod\nmetadata: { name: p${i} }\n`).join(
    '---\n',
  )
  const { said, code } = runWith({ stdin: [many] }, 'health', '-f', '-')
  t.equal(await code, 2)
  t.match(said.stderr, /501 objects, and at most 500 are judged/)
})

for (const [what, previous, current, shown] of [
  [
    'is kept',
    { status: 200, body: 'panic\n' },
    { status: 200, body: 'started\n' },
    /app, before its last start:\n {6}panic\n/,
  ],
  [
    'the kubelet has removed',
    { status: 200, body: 'unable to retrieve container logs for containerd://0fac' },
    { status: 200, body: 'panic\n' },
    /last lines of web-1, container app:\n {6}panic\n/,
  ],
  [
    'there is none of',
    { status: 400, body: JSON.stringify({ message: 'previous terminated container "app" in pod "web-1" not found' }) },
    { status: 200, body: 'panic\n' },
    /last lines of web-1, container app:\n {6}panic\n/,
  ],
  [
    'there is none of, nor any other',
    { status: 400, body: JSON.stringify({ message: 'previous terminated container "app" in pod "web-1" not found' }) },
    { status: 400, body: JSON.stringify({ message: 'container "app" is waiting to start' }) },
    /its log cannot be read: .*previous terminated container/,
  ],
] as const) {
  t.test(`the log of a life before that ${what}`, async (t) => {
    const answer = (path: string) => {
      if (!path.includes('/log?')) return { status: 200, body: '{"items":[]}' }
      return path.includes('previous=true') ? previous : current
    }
    const { code, said, one } = await start(t, [], [], { answer })
    const next = 'kubectl -n shop logs web-1 -c app --previous'
    say(one, 1, [row('apps/Deployment', 'web', 'Degraded', why('CrashLoopBackOff', { next }))])
    t.equal(await code, 4)
    t.match(said.stdout, shown)
  })
}

t.test('what is below an owner that is not shown is judged as roots are, with its cause', async (t) => {
  const { said, code, one } = await start(t, ['-n', 'shop', '--logs', '0'])
  const owner: Row = { u: 'o:shop:x', k: 'postgresql.cnpg.io/Cluster', ns: 'shop', n: 'x', c: 1, w: 'Degraded' }
  const web = row('apps/Deployment', 'web', 'Healthy')
  const db = row('apps/StatefulSet', 'db', 'Degraded', why('OOMKilled'))
  const root = { order: [owner.u, web.u], counts: { '': 1, Healthy: 1 }, more: 0 }
  const below = { order: [db.u], counts: { Degraded: 1 }, more: 0 }
  one.update({ seq: 1, rows: [owner, web, db], pages: { '': root, [owner.u]: below }, state: live })
  t.equal(await code, 4)
  t.match(said.stdout, /^✗ degraded \(1 degraded, 1 healthy\)\n✗ shop\/StatefulSet\/db\n {4}Pod web-1: OOMKilled/)
})

t.test('many alike of a namespace are no worse by what does not count', async (t) => {
  const { clock, code, one, heard } = await start(t, ['-n', 'shop', '--wait', '1m'])
  const bundle: Row = { u: 'b::batch/Job', k: 'batch/Job', n: '', c: 60, w: 'Degraded' }
  one.update({
    seq: 1,
    rows: [bundle],
    pages: { '': { order: [bundle.u], counts: { Healthy: 60 }, more: 0 } },
    state: live,
  })
  await heard('Job')
  clock.advance(5000)
  t.equal(await code, 0)
})

t.test('kinds that cannot be listed: unknown is only what is of them, or what they explain', async (t) => {
  const queue = 'p1.example.com/Queue'
  const said = (kind: string) => ({
    is: 'live' as const,
    since: 0,
    notFollowed: [kind],
    aside: [[kind, 'the API server answered 500', 5] as const],
  })
  const web = row('apps/Deployment', 'web', 'Healthy')
  const cases: [argv: string[], kind: string, rows: Row[], code: number][] = [
    [['deploy/web', '-n', 'shop'], queue, [web], 0],
    [['-n', 'shop'], queue, [web, row('ConfigMap', 'c', '')], 0],
    [['-n', 'shop'], queue, [row('apps/Deployment', 'web', 'Degraded', why('OOMKilled'))], 4],
    [['-n', 'shop'], queue, [web, row(queue, 'q', 'Healthy')], 5],
    [['queue/q', '-n', 'shop'], queue, [row(queue, 'q', 'Healthy')], 5],
    [['queue/q', '-n', 'shop'], queue, [], 5],
    [['deploy/web', '-n', 'shop'], 'Pod', [web], 5],
    [['sts/db', '-n', 'shop'], 'Pod', [row('apps/StatefulSet', 'db', 'Healthy')], 5],
    [['deploy/web', '-n', 'shop'], 'ConfigMap', [web], 0],
    [['-n', 'shop'], queue, [{ ...row('example.com/Fleet', 'f', 'Healthy'), a: [queue] }], 5],
    [['fleet/f', '-n', 'shop'], queue, [{ ...row('example.com/Fleet', 'f', 'Healthy'), a: [queue] }], 5],
    [['-n', 'shop'], queue, [{ ...row('example.com/Fleet', 'f', 'Healthy'), a: ['example.com/Other'] }], 0],
    [['-n', 'shop'], 'Node', [row('Pod', 'a', 'Degraded', why('NodeNotReady', { kind: 'Node' }))], 5],
  ]
  for (const [argv, kind, rows, expected] of cases) {
    const { clock, code, one, said: printed } = await start(t, [...argv, '--logs', '0', '--wait', '10s'])
    const page = { order: rows.map(({ u }) => u), counts: {}, more: 0 }
    one.update({ seq: 1, rows, gone: [], pages: { '': page }, state: said(kind) })
    await one.heard()
    for (let i = 0; i < 4; i++) await new Promise(setImmediate)
    clock.advance(5000)
    clock.advance(5000)
    t.equal(await code, expected, `${argv.join(' ')}, ${kind}`)
    const names = expected === 5
    t.equal(printed.stdout.includes(`${kind} cannot be listed since`), names, printed.stdout)
  }
})

t.test('programs get no verdict while one of its kinds cannot be listed, or an object is not there', async (t) => {
  const healthy = [row('apps/Deployment', 'web', 'Healthy')]
  for (const [argv, aside, more] of [
    [['deploy/web'], [['Pod', 'the API server answered 500', 5] as const], { undecidedBy: ['Pod'] }],
    [['deploy/web', 'deploy/missing'], [], { absent: [{ name: 'missing' }] }],
  ] as const) {
    const { clock, code, one, said: printed } = await start(t, [...argv, '-n', 'shop', '-o', 'json', '--wait', '10s'])
    const pages = { '': { order: healthy.map(({ u }) => u), counts: {}, more: 0 } }
    one.update({ seq: 1, rows: healthy, pages, state: { ...live, aside } })
    await one.heard()
    for (let i = 0; i < 4; i++) await new Promise(setImmediate)
    clock.advance(5000)
    clock.advance(5000)
    t.equal(await code, 5)
    const report = checkedOutput(printed.stdout) as Record<string, unknown>
    t.match(report, { exitCode: 5, state: 'live', ...more })
    t.notOk('verdict' in report, argv.join(' '))
  }
})

t.test('once such a kind is listed again there is a verdict', async (t) => {
  const { clock, code, one, heard } = await start(t, ['deploy/web', '-n', 'shop', '--wait', '1m'])
  const rows = [row('apps/Deployment', 'web', 'Healthy')]
  const pages = { '': { order: rows.map(({ u }) => u), counts: {}, more: 0 } }
  one.update({ seq: 1, rows, pages, state: { ...live, aside: [['Pod', 'the API server answered 500', 5]] } })
  await heard('✓ healthy')
  clock.advance(6000)
  one.update({ seq: 2, state: live })
  await one.heard()
  for (let i = 0; i < 4; i++) await new Promise(setImmediate)
  clock.advance(5000)
  t.equal(await code, 0)
})
