import { readFile, writeFile } from 'node:fs/promises'
import { Agent } from 'node:https'
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { type AgentOfChart, bearerOf, forgedMode, forger, type Mode, modes } from '../support/impersonation/agents.ts'
import { behindGitlab, startGround } from '../support/impersonation/ground.ts'
import { type Answer, ask, dropped, fewShapes, plain, type Shape, shapes } from '../support/impersonation/requests.ts'
import { type Identity, type Seen, seenBy, strangeNames } from '../support/impersonation/seen.ts'
import { skip } from '../support/kubectl-stack.ts'

/**
 * User that a real API server sees, for each value of `rbac` of the chart, access mode and form of request, by its
 * audit log. KAS_MATRIX names a file for the whole table.
 */

/** Rights of callers for each value of the chart: the table of deploy/charts/README.md. */
interface Case {
  readonly agent: AgentOfChart
  readonly mode: Mode
  readonly shape: Shape
  readonly id: string
  answer?: Answer
  seen?: Seen | undefined
}

t.test('no request acts under a name that nobody allowed', { skip, timeout: 200_000 }, async (t) => {
  const { agents, stack, controlPlane, auditLogFile, kubeconfigOf } = await startGround(t)
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
  // in turn for each agent and mode, as one caller makes them
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

  await t.test("GitLab's {} is the agent itself, and no more", async (t) => {
    const least = agents.find(({ name }) => name === 'least') as AgentOfChart
    const { url, authority } = await behindGitlab(t, least, kubeconfigOf(least))
    const connections = new Agent({ ca: authority })
    const asked = (shape: Shape, id: string) => ask({ url, bearer: 'ci:42:job-clusters', id, connections }, shape)
    await eventually(
      async () => {
        const { status, body } = await asked(plain, 'gitlab.ready')
        if (status !== 201) throw new Error(`${status} ${body}`)
      },
      { timeoutMs: 60_000 },
    )
    const own = shapes.filter(({ headers }) => headers.some(([name]) => /^impersonate/i.test(name)))
    const answers = await Promise.all(own.map((shape, i) => asked(shape, `gitlab.${i}`)))
    const passed = own.filter((shape, i) => shape !== dropped && !isForbidden(answers[i]))
    t.strictSame(
      passed.map(({ name }) => name),
      [],
    )
    const others = (await seenBy(auditLogFile)).filter(
      ({ requestUri, as }) => requestUri.includes('case=gitlab.') && as,
    )
    t.strictSame(others, [], 'the cluster saw agentk alone')
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
        if (!stranger || !/--may-impersonate/.test(JSON.stringify(stranger.problem ?? ''))) throw new Error(body)
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

/** All forms of requests, for the agents and modes whose decision may differ by form. */
function shapesOf({ name }: AgentOfChart, mode: Mode): readonly Shape[] {
  const isAll = name === 'least' || name === forger || (name === 'listed' && mode.acts === undefined)
  return isAll ? shapes : fewShapes
}

const ownModes = ['agent', 'agent, implicit', 'no access_as']

/** Modes whose callers act, each as itself, by values of the chart. */
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

/** Waits until the audit log is complete: a line is written soon after its answer. */
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

/** Writes a table to the file of KAS_MATRIX: one line a request, with the user that the cluster saw. */
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
