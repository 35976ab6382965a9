import { readFile, writeFile } from 'node:fs/promises'
import { Agent } from 'node:https'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { ApiClient, KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { collectionOf } from '../support/agentk-account.ts'
import { eventually } from '../support/eventually.ts'
import {
  type AgentOfChart,
  agentsOfChart,
  bearerOf,
  configurationOf,
  directoryOf,
  forgedMode,
  forger,
  type Mode,
  modes,
  tokenOf,
} from '../support/impersonation/agents.ts'
import { type Answer, ask, dropped, fewShapes, plain, type Shape, shapes } from '../support/impersonation/requests.ts'
import { type Identity, type Seen, seenBy, strangeNames } from '../support/impersonation/seen.ts'
import { assets, skip } from '../support/kubectl-stack.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'

/**
 * Whom a real API server sees, for each value of `rbac` of the chart, access mode and form of request: its audit log says
 * it. KAS_MATRIX names a file for the whole table.
 */

/** What each value of the chart lets a caller do: the table of deploy/charts/README.md. */
interface Case {
  readonly agent: AgentOfChart
  readonly mode: Mode
  readonly shape: Shape
  readonly id: string
  answer?: Answer
  seen?: Seen | undefined
}

t.test('no request acts under a name that nobody allowed', { skip, timeout: 200_000 }, async (t) => {
  const { agents, stack, controlPlane, auditLogFile } = await start(t)
  const ca = await readFile(stack.caFile, 'utf8')
  const single = new Agent({ ca })
  const cases: Case[] = agents.flatMap((agent) =>
    (agent.name === forger ? [forgedMode] : modes).flatMap((mode) =>
      shapesOf(agent, mode).map((shape, i) => ({
        agent,
        mode,
        shape,
        id: `${agent.name}.${mode.name.replaceAll(/\W+/g, '-')}.${i}`,
      })),
    ),
  )
  const began = performance.now()
  // one after the other for each agent and mode, as one caller makes them
  await Promise.all(
    Map.groupBy(cases, ({ agent, mode }) => `${agent.name} ${mode.name}`)
      .values()
      .map(async (ofOne) => {
        const connections = new Agent({ ca })
        for (const one of ofOne) {
          const bearer = bearerOf(one.mode, one.agent.id)
          one.answer = await ask({ url: stack.kubernetesUrl, bearer, id: one.id, connections }, one.shape)
        }
      }),
  )
  t.comment(`${cases.length} requests: ${Math.round(performance.now() - began)} ms`)
  const log = await completeLog(cases, auditLogFile)
  await printMatrix(cases)

  await t.test('of each request', async (t) => {
    const strange = cases.flatMap(({ agent, mode, shape, seen }) => {
      const names = seen?.as
        ? strangeNames(seen.as, mode.acts ? agent.listed.configuration : agent.listed.callers, kasSays([mode]))
        : []
      return names.map((name) => `${agent.name}: ${mode.name}: ${shape.name}: ${name}`)
    })
    t.strictSame(strange, [])
  })

  await t.test('of all that agentk asked beside', async (t) => {
    const accounts = new Map(agents.map((agent) => [accountName(agent), agent]))
    const strange = log.flatMap(({ by, as, requestUri }) => {
      const agent = accounts.get(by)
      if (!agent || !as) return []
      return strangeNames(as, agent.listed.callers.union(agent.listed.configuration), kasSays(modes)).map(
        (name) => `${agent.name}: ${requestUri}: ${name}`,
      )
    })
    t.strictSame(strange, [])
  })

  await t.test("each mode acts as the chart's values say", async (t) => {
    for (const [name, acting] of Object.entries(actingModes)) {
      const found = cases.filter(({ agent, shape }) => agent.name === name && shape === plain).filter(isThrough)
      t.strictSame(
        found.map(({ mode }) => mode.name),
        acting,
        name,
      )
      for (const { agent, mode, seen } of found) t.match(seen, { by: accountName(agent), as: mode.acts }, mode.name)
    }
  })

  await t.test("a caller's own headers are refused, but for what the values list", async (t) => {
    const own = cases.filter(({ shape }) => shape.headers.some(([name]) => /^impersonate/i.test(name)))
    const isOther = ({ agent, shape }: Case) => agent.name !== 'any' && agent.name !== forger && shape !== dropped
    const through = own.filter(isThrough).filter(isOther)
    t.strictSame(
      through.map(({ agent, mode, shape }) => `${agent.name}: ${mode.name}: ${shape.name}`).sort(),
      ownModes
        .flatMap((mode) => ['a service account that is listed', 'listed'].map((shape) => `listed: ${mode}: ${shape}`))
        .sort(),
    )
    const otherwise = own.filter((one) => isOther(one) && !through.includes(one) && !isForbidden(one.answer))
    t.strictSame(
      otherwise.map(
        ({ agent, mode, shape, answer }) =>
          `${agent.name}: ${mode.name}: ${shape.name}: ${answer?.status} ${answer?.body}`,
      ),
      [],
      '403 and a Status',
    )
    const [asAgent] = own.filter(
      ({ agent, mode, shape }) => agent.name === 'least' && mode.name === 'agent' && shape === dropped,
    )
    t.match(asAgent, { answer: { status: 201 }, seen: { as: undefined } }, 'a header of one hop goes no further')
    const asStock = own.filter(isThrough).filter(({ agent, mode }) => agent.name === 'any' && mode.name === 'agent')
    t.ok(
      asStock.some(({ seen }) => seen?.as?.groups?.includes('system:masters')),
      'any allows what a stock agentk does',
    )
  })

  await t.test('a source acts as the account that the values name, and as no other', async (t) => {
    const { admin } = controlPlane
    const map = await eventually(() => admin.get('/api/v1/namespaces/shop/configmaps/deployer'), { timeoutMs: 60_000 })
    t.match(map, { data: { of: 'deployer' } })
    const sources = agents.find(({ name }) => name === 'sources') as AgentOfChart
    const bearer = bearerOf(modes.find(({ name }) => name === 'agent') as Mode, sources.id)
    const state = shapes.find(({ target }) => target === '/gitops/state') as Shape
    await eventually(
      async () => {
        const { body } = await ask({ url: stack.kubernetesUrl, bearer, id: 'state', connections: single }, state)
        const stranger = JSON.parse(body).sources?.find(({ name }: { name?: string }) => name === 'stranger')
        if (!stranger || !/--may-impersonate|stranger/.test(JSON.stringify(stranger.problem ?? '')))
          throw new Error(body)
      },
      { timeoutMs: 60_000 },
    )
    t.equal((await admin.request('/api/v1/namespaces/shop/configmaps/stranger')).status, 404)
    const names = (await seenBy(auditLogFile))
      .filter(({ by }) => by === accountName(sources))
      .map(({ as }) => as?.username)
    t.ok(names.includes('system:serviceaccount:shop:deployer'))
    t.notOk(names.includes('system:serviceaccount:shop:stranger'))
  })
})

/** All, where what is decided may differ by the form of a request. */
function shapesOf({ name }: AgentOfChart, mode: Mode): readonly Shape[] {
  const isAll = name === 'least' || name === forger || (name === 'listed' && mode.acts === undefined)
  return isAll ? shapes : fewShapes
}

const ownModes = ['agent', 'agent, implicit', 'no access_as']

/** By values of the chart: the modes whose callers act, each as itself. */
const actingModes: Readonly<Record<string, readonly string[]>> = {
  least: [...ownModes, 'user', 'ci_job'],
  named: [...ownModes, 'impersonate robot', 'user'],
  namespaces: [...ownModes, 'impersonate account team-a/gitlab'],
  'existing-role': ownModes,
  sources: [...ownModes, 'user', 'ci_job'],
  listed: [
    ...ownModes,
    'impersonate account ops/probe',
    'impersonate robot',
    'impersonate robot, uid and extra',
    'user',
    'ci_job',
  ],
  any: [...ownModes, 'user', 'ci_job'],
  [forger]: [],
}

const isThrough = ({ answer, seen }: Case): boolean => {
  const status = answer?.status ?? 0
  return seen !== undefined && (status < 300 || (seen.code ?? 0) < 300 || seen.code === 400)
}
const isForbidden = (answer: Answer | undefined): boolean =>
  answer?.status === 403 && JSON.parse(answer.body).kind === 'Status'
const accountName = ({ namespace, account }: AgentOfChart) => `system:serviceaccount:${namespace}:${account}`
const kasSays = (some: readonly Mode[]): Identity[] =>
  some.flatMap(({ acts }) => (acts?.username.startsWith('gitlab:') && !some.includes(forgedMode) ? [acts] : []))

/** A line is written soon after its answer. */
async function completeLog(cases: readonly Case[], auditLogFile: string): Promise<Seen[]> {
  return await eventually(async () => {
    const log = await seenBy(auditLogFile)
    const byCase = new Map(log.map((one) => [/[?&]case=([^&]*)/.exec(one.requestUri)?.[1], one]))
    for (const one of cases) one.seen = byCase.get(one.id)
    const late = cases.find(
      ({ shape, answer, seen }) => shape.target.includes('CASE') && (answer?.status ?? 0) < 300 && !seen,
    )
    if (late) throw new Error(`${late.id} is not in the log`)
    return log
  })
}

const maxSaid = 160

/** In KAS_MATRIX, one line a request: whom the cluster saw. */
async function printMatrix(cases: readonly Case[]): Promise<void> {
  const file = process.env.KAS_MATRIX
  if (!file) return
  const who = ({ username, groups = [], uid, extra = {} }: Identity) =>
    [username, ...groups, ...(uid ? [`uid ${uid}`] : []), ...Object.keys(extra).map((one) => `extra ${one}`)].join(', ')
  const lines = cases.map(({ agent, mode, shape, answer, seen }) => {
    const { status = 0, body = '' } = answer ?? {}
    const said = status < 300 ? '' : (JSON.parse(body).message ?? body).slice(0, maxSaid)
    const found = !seen ? 'nobody' : seen.as ? who(seen.as) : status === 403 ? 'refused by RBAC' : 'agentk'
    return `| ${agent.name} | ${mode.name} | ${shape.name} | ${status} | ${found} | ${said} |`
  })
  await writeFile(
    file,
    [
      '| values | access mode | request | status | the cluster saw | said |',
      '|---|---|---|---|---|---|',
      ...lines,
      '',
    ].join('\n'),
  )
}

async function start(t: Test) {
  const processes = await Processes.start(t)
  const auditLogFile = join(processes.folder, 'audit.log')
  const controlPlane = new ControlPlane({ assets, parts: 'all', auditLogFile })
  t.teardown(() => controlPlane.stop())
  const agents = agentsOfChart()
  const unused = join(processes.folder, 'none.kubeconfig')
  const [stack] = await Promise.all([Stack.start(processes, { agentKubeconfig: unused }), controlPlane.start()])
  await stack.writeDirectory(directoryOf(agents, stack.repository.path))
  await stack.repository.push('manifests/deployer.yaml', JSON.stringify(configMap('deployer')))
  await stack.repository.push('manifests/stranger.yaml', JSON.stringify(configMap('stranger')))
  for (const agent of agents) {
    await stack.repository.push(`.gitlab/agents/${agent.name}/views.yaml`, 'follow: { exclude: [Node] }')
    await stack.repository.push(`.gitlab/agents/${agent.name}/config.yaml`, JSON.stringify(configurationOf(agent)))
  }
  await prepare(controlPlane.admin, agents)
  await Promise.all(
    agents.map(async ({ name, namespace, account, flags }) => {
      const { metadata } = await controlPlane.admin.get(`/api/v1/namespaces/${namespace}/serviceaccounts/${account}`)
      const token = controlPlane.signToken({
        account: { namespace, name: account, uid: metadata.uid },
        lifeMs: 3_600_000,
      })
      const { server, caFile } = controlPlane
      const kubeconfig = join(processes.folder, `${name}.kubeconfig`)
      await writeFile(kubeconfig, kubeconfigText({ server, caFile, namespace, user: { token } }), { mode: 0o600 })
      const tokenFile = join(processes.folder, `${name}.token`)
      await writeFile(tokenFile, tokenOf(name), { mode: 0o600 })
      await stack.startAgentk({ kubeconfig, tokenFile, args: flags, environment: { POD_NAMESPACE: namespace } })
    }),
  )
  const connections = new Agent({ ca: await readFile(stack.caFile, 'utf8') })
  await Promise.all(
    agents.map((agent) =>
      eventually(
        async () => {
          // of the forger nobody may come through
          const mode = agent.name === forger ? forgedMode : (modes[0] as Mode)
          const answer = await ask(
            { url: stack.kubernetesUrl, bearer: bearerOf(mode, agent.id), id: 'ready', connections },
            plain,
          )
          if (agent.name !== forger && answer.status !== 201)
            throw new Error(`${agent.name}: ${answer.status} ${answer.body}`)
        },
        { timeoutMs: 60_000 },
      ),
    ),
  )
  return { agents, stack, controlPlane, auditLogFile }
}

const configMap = (name: string) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace: 'shop' },
  data: { of: name },
})

/** What the chart renders, and beside it what lets everybody be seen: each may watch pods, and run a command in one. */
async function prepare(admin: ApiClient, agents: readonly AgentOfChart[]): Promise<void> {
  const create = (object: KubernetesObject) => admin.create(collectionOf(object), object)
  const namespaces = ['shop', 'ops', 'team-a', 'team-b', ...agents.map(({ namespace }) => namespace)]
  await Promise.all(namespaces.map((name) => create({ kind: 'Namespace', metadata: { name } })))
  const role = (name: string, rules: object[], subject: object) =>
    Promise.all([
      create({ kind: 'ClusterRole', metadata: { name }, rules }),
      create({
        kind: 'ClusterRoleBinding',
        metadata: { name },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
        subjects: [subject],
      }),
    ])
  const group = { kind: 'Group', apiGroup: 'rbac.authorization.k8s.io', name: 'system:authenticated' }
  await role(
    'seen',
    [
      { apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'] },
      { apiGroups: [''], resources: ['pods/exec'], verbs: ['get', 'create'] },
    ],
    group,
  )
  for (const { name, namespace, account, objects } of agents) {
    // the chart makes no account that values say exists
    const hasAccount = objects.some(
      ({ kind, metadata }) => kind === 'ServiceAccount' && metadata.namespace === namespace,
    )
    if (!hasAccount) await create({ kind: 'ServiceAccount', metadata: { name: account, namespace } })
    for (const object of objects) await create(object)
    const bound = { kind: 'ServiceAccount', name: account, namespace }
    if (name === 'any') await role('anybody', [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }], bound)
  }
  const container = { name: 'main', image: 'none' }
  const pod = { kind: 'Pod', metadata: { name: 'web', namespace: 'shop' }, spec: { containers: [container] } }
  await eventually(() => admin.create('/api/v1/namespaces/shop/pods', pod)) // after the account `default`
  await admin.until(
    '/api/v1/namespaces/shop/pods',
    ({ status }) => status?.phase === 'Running',
    AbortSignal.timeout(60_000),
  )
}
