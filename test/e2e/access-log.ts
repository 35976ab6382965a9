import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import type { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { type AccessLine, accessLineSchema } from '../../src/kas/access-log/access-line.ts'
import { WatchClient, watchProtocol } from '../contract/kubernetes-server/watch-client.ts'
import type { EntryReplica } from '../support/entry-replica.ts'
import { eventually } from '../support/eventually.ts'
import { httpsGet } from '../support/https-get.ts'
import { bindReader } from '../support/kubectl-identities.ts'
import { deployment } from '../support/kubectl-operations.ts'
import { type Identity, identities, type KubectlSide } from '../support/kubectl-side.ts'
import { createSide } from '../support/kubectl-stack.ts'
import type { Processes, TestProcess } from '../support/processes.ts'
import type { Stack } from '../support/stack.ts'
import { bearerOf, impersonated } from '../support/stack-directory.ts'

/**
 * kubectl's calls, at the replica that holds the agent and at one that does not. The test compares the access log with
 * the API server's own audit log.
 */

type Line = Partial<Record<keyof AccessLine, unknown>>

interface Kind {
  readonly name: string
  run(side: Side): Promise<unknown>
  /** lines that the log must have, each once */
  lines(side: Side): readonly Line[]
}

interface Side extends KubectlSide {
  readonly entry: string
  readonly kas: TestProcess
  readonly url: string
  readonly ca: string
  /** name of the Deployment's pod */
  pod: string
}

const kind = (name: string, args: readonly string[], lines: readonly Line[], input = {}): Kind => ({
  name,
  run: ({ kubectl, pod }) =>
    kubectl.run(
      args.map((arg) => arg.replaceAll('POD', pod).replaceAll('NAMESPACE', kubectl.namespace)),
      input,
    ),
  lines: ({ kubectl: { namespace }, pod }) =>
    lines.map((line) => ({ namespace, ...(line.name === 'POD' ? { ...line, name: pod } : line) })),
})

const none = undefined
const config = { resource: 'configmaps' }
const web = { resource: 'deployments', group: 'apps', name: 'web' }
const exec = {
  resource: 'pods',
  subresource: 'exec',
  class: 'exec',
  name: 'POD',
  program: 'cat',
  arguments: 1,
  status: 101,
}
const webSockets = {
  environment: { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: 'true', KUBECTL_PORT_FORWARD_WEBSOCKETS: 'true' },
}
const spdy = { environment: { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: 'false', KUBECTL_PORT_FORWARD_WEBSOCKETS: 'false' } }
const both = (line: Line) => [
  { ...line, event: 'begin' },
  { ...line, event: 'end' },
]
const asIdentity = (identity: Identity, args: readonly string[], line: Line): Kind => ({
  name: `${args.join(' ')}, as ${identity}`,
  run: (side) => side.kubectl.with({ kubeconfig: side.kubeconfigs[identity] }).run(args),
  lines: ({ kubectl: { namespace } }) => [
    { namespace, as: identity === 'agent' ? none : impersonated[identity].username, ...line },
  ],
})
const withToken = (name: string, path: string, token: string, line: Line): Kind => ({
  name,
  run: ({ url, ca }) => httpsGet(`${url}${path}`, { ca, token }),
  lines: () => [{ caller: none, as: none, user_agent: none, ...line }],
})
const refusedKnown: Line = { agent_id: '43', class: 'refusal', holder: none, resource: 'pods', verb: 'list' }
const raw = (path: string) => ['get', '--raw', path]
const space = '/api/v1/namespaces/NAMESPACE'

const kinds: readonly Kind[] = [
  kind(
    'create',
    ['create', 'configmap', 'one', '--from-literal=a=planted-value'],
    [{ ...config, verb: 'create', class: 'write', status: 201 }],
  ),
  kind('get', ['get', 'configmap', 'one'], [{ ...config, verb: 'get', name: 'one', class: 'read', status: 200 }]),
  kind('get, absent', ['get', 'configmap', 'absent'], [{ ...config, verb: 'get', name: 'absent', status: 404 }]),
  kind('list', ['get', 'configmaps'], [{ ...config, verb: 'list', name: none }]),
  kind('list, all namespaces', ['get', 'configmaps', '-A'], [{ ...config, verb: 'list', namespace: none }]),
  kind('list, by label', ['get', 'configmaps', '-l', 'a=b'], [{ ...config, verb: 'list', label_selector: 'a=b' }]),
  kind(
    'list, by name',
    ['get', 'configmaps', '--field-selector=metadata.name=one'],
    [{ ...config, verb: 'list', name: 'one' }],
  ),
  kind('label', ['label', 'configmap', 'one', 'a=b'], [{ ...config, verb: 'patch', name: 'one', class: 'write' }]),
  kind('replace', ['replace', '-f', '-'], [{ ...config, verb: 'update', name: 'one' }], {
    stdin: JSON.stringify({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'one' },
      data: { a: 'planted-value' },
    }),
  }),
  kind(
    'server-side apply',
    ['apply', '--server-side', '-f', '-'],
    [{ ...web, verb: 'patch', class: 'write', status: 201 }],
    { stdin: deployment(1) },
  ),
  {
    name: 'rollout status',
    async run(side) {
      await side.kubectl.ok(['rollout', 'status', 'deployment/web', '--timeout=25s'])
      side.pod = await side.kubectl.ok([
        'get',
        'pods',
        '--selector=app=web',
        '-o',
        'jsonpath={.items[0].metadata.name}',
      ])
    },
    lines: ({ kubectl: { namespace } }) => [
      { ...web, namespace, verb: 'watch', event: 'begin', field_selector: 'metadata.name=web' },
    ],
  },
  kind('scale', ['scale', 'deployment', 'web', '--replicas=2'], [{ ...web, subresource: 'scale', verb: 'patch' }]),
  kind(
    'patch, status',
    ['patch', 'deployment', 'web', '--subresource=status', '--type=merge', '-p', '{}'],
    [{ ...web, subresource: 'status', verb: 'patch' }],
  ),
  kind('describe', ['describe', 'pod', 'POD'], [{ resource: 'events', verb: 'list' }]),
  kind(
    'create secret',
    ['create', 'secret', 'generic', 'hidden', '--from-literal=a=planted-secret'],
    [{ resource: 'secrets', verb: 'create', class: 'write' }],
  ),
  kind(
    'get secret',
    ['get', 'secret', 'hidden', '-o', 'yaml'],
    [{ resource: 'secrets', verb: 'get', class: 'secret', name: 'hidden' }],
  ),
  kind(
    'list secrets',
    ['get', 'secrets', '-A'],
    [{ resource: 'secrets', verb: 'list', class: 'secret', namespace: none }],
  ),
  kind('logs', ['logs', 'POD'], [{ resource: 'pods', subresource: 'log', verb: 'get', name: 'POD', class: 'read' }]),
  kind(
    'exec, WebSocket',
    ['exec', 'POD', '--', 'cat', '/planted-argument'],
    both({ ...exec, verb: 'get' }),
    webSockets,
  ),
  kind('exec, SPDY', ['exec', 'POD', '--', 'cat', '/planted-argument'], both({ ...exec, verb: 'create' }), spdy),
  kind(
    'exec, refused',
    ['exec', 'absent', '--', 'cat'],
    [{ resource: 'pods', verb: 'get', name: 'absent', status: 404 }],
  ),
  {
    name: 'watch',
    async run({ kubectl, kas }) {
      const watch = await kubectl.start(['get', 'configmaps', '--watch', '--output-watch-events'])
      await begun(kas, ({ resource, verb }) => resource === 'configmaps' && verb === 'watch')
      watch.signal('SIGKILL')
      await watch.exited
    },
    lines: ({ kubectl: { namespace } }) => both({ ...config, namespace, verb: 'watch', class: 'watch', status: 200 }),
  },
  {
    name: 'logs --follow',
    async run({ kubectl, pod }) {
      const logs = await kubectl.start(['logs', '--follow', pod])
      await logs.says(/hello from the pod/)
      logs.signal('SIGKILL')
      await logs.exited
    },
    lines: ({ kubectl: { namespace }, pod: name }) =>
      both({ resource: 'pods', subresource: 'log', namespace, name, class: 'watch' }),
  },
  ...(['WebSocket', 'SPDY'] as const).flatMap((form): Kind[] => [
    {
      name: `port-forward, ${form}`,
      async run({ kubectl, pod }) {
        const forward = await kubectl.start(['port-forward', pod, ':80'], form === 'SPDY' ? spdy : webSockets)
        const [, port] = await forward.says(/Forwarding from 127\.0\.0\.1:(\d+) -> 80/)
        await (await fetch(`http://127.0.0.1:${port}/planted-path`, { headers: { connection: 'close' } })).text()
        forward.signal('SIGKILL')
        await forward.exited
      },
      lines: ({ kubectl: { namespace }, pod: name }) =>
        both({
          resource: 'pods',
          subresource: 'portforward',
          verb: form === 'SPDY' ? 'create' : 'get',
          namespace,
          name,
          class: 'exec',
        }),
    },
  ]),
  {
    name: 'attach',
    async run({ kubectl, kas, pod }) {
      const attach = await kubectl.start(['attach', pod], webSockets)
      await begun(kas, ({ subresource }) => subresource === 'attach')
      attach.signal('SIGKILL')
      await attach.exited
    },
    lines: ({ kubectl: { namespace }, pod: name }) =>
      both({ resource: 'pods', subresource: 'attach', namespace, name, class: 'exec' }),
  },
  {
    name: 'cp',
    async run({ kubectl, pod, folder }) {
      await writeFile(join(folder, 'copied'), 'planted-value')
      await kubectl.ok(['cp', join(folder, 'copied'), `${pod}:copied-${kubectl.namespace}`], webSockets)
    },
    lines: ({ kubectl: { namespace }, pod: name }) => both({ ...exec, namespace, name, program: 'tar', arguments: 4 }),
  },
  {
    name: 'a page that watches, over a WebSocket',
    async run({ url, ca, kubectl: { namespace } }) {
      const headers = { Authorization: `Bearer ${bearerOf('agent')}`, 'User-Agent': 'a page' }
      const socket = new WebSocket(`${url.replace('https', 'wss')}/watch`, [watchProtocol], { headers, ca })
      const client = new WatchClient(socket)
      await once(socket, 'open')
      await client.watch('planted-watch', { namespace }).next()
      socket.close()
      await client.closed
    },
    lines: ({ kubectl: { namespace } }) => {
      const common = { class: 'watch', user_agent: 'a page', as: none }
      return [
        ...both({ ...common, path: '/watch', verb: 'get', status: 101, holder: none }),
        ...both({ ...common, resource: 'pods', namespace, verb: 'watch', status: 200 }),
      ]
    },
  },
  kind('proxy', raw(`${space}/pods/POD:80/proxy/planted-path?planted=query`), [
    { resource: 'pods', subresource: 'proxy', verb: 'get', class: 'refusal', status: 403 }, // by the simulated kubelet
  ]),
  kind(
    'evict',
    ['create', '--raw', `${space}/pods/absent/eviction`, '-f', '-'],
    [{ resource: 'pods', subresource: 'eviction', verb: 'create', name: 'absent', status: 404 }],
    {
      stdin: JSON.stringify({ apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: 'absent' } }),
    },
  ),
  kind(
    'create token',
    ['create', 'token', 'default'],
    [{ resource: 'serviceaccounts', subresource: 'token', verb: 'create', name: 'default' }],
  ),
  kind(
    'auth can-i',
    ['auth', 'can-i', 'list', 'pods'],
    [{ resource: 'selfsubjectaccessreviews', group: 'authorization.k8s.io', verb: 'create', namespace: none }],
  ),
  kind(
    'auth whoami',
    ['auth', 'whoami'],
    [{ resource: 'selfsubjectreviews', group: 'authentication.k8s.io', verb: 'create', namespace: none }],
  ),
  kind('nodes', ['get', 'nodes'], [{ resource: 'nodes', verb: 'list', namespace: none }]),
  kind('namespace', ['get', 'namespace', 'NAMESPACE'], [{ resource: 'namespaces', verb: 'get' }]),
  kind('version', raw('/version'), [{ path: '/version', verb: 'get', namespace: none }]),
  kind('health', raw('/readyz?verbose'), [{ path: '/readyz', verb: 'get', namespace: none }]),
  kind('not there', raw('/apis/example.com/v1/widgets'), [
    { resource: 'widgets', group: 'example.com', verb: 'list', status: 404, namespace: none },
  ]),
  kind('delete', ['delete', 'configmap', 'one'], [{ ...config, verb: 'delete', name: 'one', class: 'write' }]),
  kind(
    'deletecollection',
    ['delete', '--raw', `${space}/configmaps?labelSelector=a%3Db`],
    [{ ...config, verb: 'deletecollection', class: 'write', label_selector: 'a=b' }],
  ),
  asIdentity('ci_job', ['get', 'pods'], {
    resource: 'pods',
    verb: 'list',
    status: 200,
    caller: { kind: 'ci_job', id: '5', name: 'ada', project: '2', job: '901', pipeline: '91' },
  }),
  asIdentity('user', ['get', 'pods'], {
    resource: 'pods',
    verb: 'list',
    status: 200,
    caller: { kind: 'personal_access_token', id: '5', name: 'ada' },
  }),
  asIdentity('impersonate', ['get', 'pods'], { resource: 'pods', verb: 'list', status: 200 }),
  asIdentity('user', ['delete', 'pod', 'x'], {
    resource: 'pods',
    verb: 'delete',
    status: 403,
    class: 'refusal',
    outcome: 'answered',
  }),
  asIdentity('user', ['get', 'secrets'], { resource: 'secrets', verb: 'list', status: 403, class: 'refusal' }),
  withToken('a user, of an agent that is not there', '/api/v1/pods', bearerOf('user').replace('42', '43'), {
    ...refusedKnown,
    status: 401,
    reason: 'USER_UNAUTHORIZED',
    caller: { kind: 'personal_access_token', id: '5', name: 'ada' },
  }),
  withToken('a job, of an agent that is not there', '/api/v1/pods', bearerOf('ci_job').replace('42', '43'), {
    ...refusedKnown,
    status: 403,
    reason: 'AGENT_NOT_ALLOWED',
    caller: { kind: 'ci_job', id: '5', name: 'ada', project: '2', job: '901', pipeline: '91' },
  }),
  withToken('an unknown user', '/api/v1/pods', 'pat:42:planted-token', {
    event: 'refused',
    reason: 'USER_UNAUTHORIZED',
    status: 401,
    agent_id: '42',
    class: 'refusal',
  }),
]

/** Addresses of two replicas for kubectl, before one cluster that writes its audit log. */
export interface KubectlWays {
  readonly processes: Processes
  readonly controlPlane: ControlPlane
  readonly auditLogFile: string
  /** the replica that holds the agent, and one that does not; both write the access log at level `metadata` */
  readonly holder: Stack
  readonly entry: EntryReplica
}

/** Plays each kind of call at both replicas, then compares the logs. Calls from before this begins are in neither. */
export async function callsAreLogged(t: Test, ways: KubectlWays): Promise<void> {
  const { processes, controlPlane, auditLogFile, holder, entry } = ways
  const ca = await readFile(holder.caFile, 'utf8')
  const components = { processes, controlPlane }
  const own = Object.fromEntries(identities.map((identity) => [identity, holder.kubeconfig(identity)]))
  const sides: Side[] = [
    {
      ...(await createSide('holder', own as Record<Identity, string>, components)),
      entry: 'kas-0',
      kas: holder.kas,
      url: holder.kubernetesUrl,
      ca,
      pod: '',
    },
    {
      ...(await createSide('elsewhere', entry.kubeconfigs, components)),
      entry: 'kas-1',
      kas: entry.kas,
      url: entry.kubernetesUrl,
      ca,
      pod: '',
    },
  ]
  const readers = [impersonated.ci_job, impersonated.user, impersonated.impersonate].map(({ username }) => username)
  for (const side of sides) await bindReader(side.kubectl, readers)
  for (const each of kinds) {
    for (const side of sides) await t.test(`${each.name}, ${side.name}`, (t) => play(t, each, side))
  }
  t.ok(kinds.length >= 40, `${kinds.length} kinds`)
  await t.test('joined with the audit log', async (t) => joinLogs(t, await readFile(auditLogFile, 'utf8'), sides))
  for (const { kas } of sides) t.notMatch(kas.stdout, /planted|Bearer|stack-(?:job|token)/)
}

async function begun(kas: TestProcess, is: (line: AccessLine) => boolean): Promise<void> {
  await eventually(async () => {
    if (!linesOf(kas).some((line) => line.event === 'begin' && is(line))) throw new Error('it has not begun')
  })
}

async function play(t: Test, { run, lines }: Kind, side: Side): Promise<void> {
  const before = linesOf(side.kas).length
  await run(side)
  const common = { agent_id: '42', address: '127.0.0.1', entry: side.entry }
  for (const line of lines(side)) {
    const isStranger = line.event === 'refused'
    const wanted: Line = {
      event: 'end',
      ...common,
      ...(isStranger ? {} : { holder: 'kas-0', user_agent: /^kubectl/ }),
      ...line,
    }
    const found = await eventually(async () => {
      const all = linesOf(side.kas).slice(before)
      const fitting = all.filter((one) => fits(one, wanted))
      if (fitting.length === 0) throw new Error(`no ${show(wanted)} in\n${all.map(show).join('\n')}`)
      return fitting
    })
    t.equal(found.length, 1, show(wanted))
    if (!isStranger) t.ok(found[0]?.caller, 'whose it is')
  }
}

interface AuditEvent {
  readonly auditID: string
  readonly stage: string
  readonly verb: string
  readonly userAgent?: string
  readonly impersonatedUser?: { readonly username: string }
  readonly objectRef?: Readonly<Partial<Record<'resource' | 'apiGroup' | 'subresource' | 'namespace' | 'name', string>>>
  readonly responseStatus?: { readonly code?: number }
}

/** Checks that each call that reached the cluster is in both logs with the same values. */
async function joinLogs(t: Test, auditLog: string, sides: readonly Side[]): Promise<void> {
  const events = auditLog
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as AuditEvent)
  const byId = Map.groupBy(events, ({ auditID }) => auditID)
  const ended = sides.flatMap(({ kas }) => linesOf(kas)).filter(({ event }) => event === 'end')
  const lineOf = new Map(ended.map((line) => [line.id, line]))
  let joined = 0
  for (const line of ended) {
    if (line.holder === undefined || line.delivery === 'none') continue
    const [event] =
      byId
        .get(line.id ?? '')
        ?.filter(({ stage }) => stage !== 'Panic')
        .slice(-1) ?? []
    if (!event) t.fail(`not in the audit log: ${show(line)}`)
    else if (!isSame(line, event)) t.fail(`${show(line)} is ${JSON.stringify(event)}`)
    joined += 1
  }
  t.ok(joined > 2 * kinds.length, `${joined} calls joined`)
  const lost = events.filter(({ userAgent, auditID }) => userAgent?.startsWith('kubectl/') && !lineOf.has(auditID))
  t.strictSame(lost, [], 'each that kubectl made has a line here')
}

function isSame(line: AccessLine, { verb, objectRef = {}, impersonatedUser, responseStatus }: AuditEvent): boolean {
  const { resource, apiGroup, subresource, namespace, name } = objectRef
  return (
    line.verb === verb &&
    line.resource === resource &&
    (line.resource === undefined ||
      (line.group === apiGroup && line.subresource === subresource && line.namespace === namespace)) &&
    (line.name === undefined || line.name === name) && // the audit log names no object that is created
    line.as === impersonatedUser?.username &&
    (line.status === responseStatus?.code || line.outcome === 'left')
  )
}

/** end of the part that was parsed, and its lines, by program: each line is parsed once */
const linesRead = new WeakMap<TestProcess, { end: number; lines: AccessLine[] }>()

function linesOf(kas: TestProcess): readonly AccessLine[] {
  const read = linesRead.get(kas) ?? { end: 0, lines: [] }
  linesRead.set(kas, read)
  const end = kas.stdout.lastIndexOf('\n') + 1
  for (const line of kas.stdout.slice(read.end, end).split('\n'))
    if (line !== '') read.lines.push(accessLineSchema.parse(JSON.parse(line)))
  read.end = end
  return read.lines
}

function fits(line: AccessLine, wanted: Line): boolean {
  return Object.entries(wanted).every(([field, value]) => {
    const found = line[field as keyof AccessLine]
    if (value instanceof RegExp) return typeof found === 'string' && value.test(found)
    return JSON.stringify(found) === JSON.stringify(value)
  })
}

const show = (line: Line) => JSON.stringify(line, (_, value) => (value instanceof RegExp ? String(value) : value))
