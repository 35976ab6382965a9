import t from 'tap'
import { AggregatedApis } from '../../../../../../src/agentk/modules/gitops/live/aggregated-apis.ts'
import { DryLanes } from '../../../../../../src/agentk/modules/gitops/live/dry-lanes.ts'

/** Answers that a real API server seldom gives. test/contract/agentk/gitops/other-servers.test.ts has all others. */

const { signal } = new AbortController()
const kind = { group: 'example.com', version: 'v1', plural: 'widgets' }
const apps = { group: 'apps', version: 'v1', plural: 'deployments' }

type Answer = { readonly status: number; readonly body?: unknown }
const service = (spec: object) => ({
  metadata: { name: 'v1.example.com' },
  spec: { group: 'example.com', version: 'v1', ...spec },
})
const listOf = (...items: readonly unknown[]): Answer => ({
  status: 200,
  body: { metadata: { resourceVersion: '1' }, items },
})
const none: Answer = { status: 404, body: {} }

/** @param definitions - answer for CustomResourceDefinitions */
function laneOf(services: () => Promise<Answer>, definitions: Answer = none) {
  const asked: string[] = []
  const json = async (method: string, path: string) => {
    asked.push(`${method} ${path}`)
    const answer = path.includes('/apiservices') ? await services() : definitions
    return { body: undefined, ...answer }
  }
  return { asked, json }
}

t.test('a list that fails leaves Kubernetes’ own groups, and the text has its status', async (t) => {
  const texts = {
    401: /agentk may not list APIServices, which rbac\.gitops of its chart allows$/,
    403: /agentk may not list APIServices, which rbac\.gitops of its chart allows$/,
    404: /the API server answered 404 for the list of APIServices$/,
    500: /the API server answered 500 for the list of APIServices$/,
  }
  for (const [status, text] of Object.entries(texts)) {
    const apis = new AggregatedApis([laneOf(async () => ({ status: Number(status), body: {} }))])
    t.match(await apis.dryRunRisk(kind, signal), text, status)
    t.equal(await apis.dryRunRisk(apps, signal), undefined, status)
  }
})

t.test('an APIService of any shape', async (t) => {
  const shapes: [spec: object, isOwn: boolean][] = [
    [{}, true],
    [{ service: null }, true],
    [{ service: {} }, false],
    [{ service: { name: 'a', namespace: 'b' } }, false],
    [{ service: 'odd' }, false],
  ]
  for (const [spec, isOwn] of shapes) {
    const apis = new AggregatedApis([laneOf(async () => listOf(null, 'text', {}, service(spec)))])
    t.equal((await apis.dryRunRisk(kind, signal)) === undefined, isOwn, JSON.stringify(spec))
  }
  const over = new AggregatedApis([
    laneOf(async () => listOf({ metadata: { name: 'v1.apps' }, spec: { group: 'apps', version: 'v1', service: {} } })),
  ])
  t.match(await over.dryRunRisk(apps, signal), /another server answers for apps\/v1 \(APIService v1\.apps\)/)
})

t.test('a definition counts if it is established and serves the version', async (t) => {
  const definition = (name: string, served: unknown, established: string) => ({
    metadata: { name },
    spec: { versions: [{ name: 'v1', served }] },
    status: { conditions: [{ type: 'Established', status: established }] },
  })
  const cases: [definition: unknown, isOwn: boolean][] = [
    [definition('widgets.example.com', true, 'True'), true],
    [definition('widgets.example.com', false, 'True'), false],
    [definition('widgets.example.com', true, 'False'), false],
    [definition('others.example.com', true, 'True'), false],
    [{ metadata: { name: 'widgets.example.com' } }, false],
  ]
  for (const [one, isOwn] of cases) {
    const apis = new AggregatedApis([laneOf(async () => ({ status: 403 }), listOf(one))])
    t.equal((await apis.dryRunRisk(kind, signal)) === undefined, isOwn, JSON.stringify(one))
  }
})

t.test('all who ask at once share one list, and one that was cut is read again', async (t) => {
  let isCut = true
  const lane = laneOf(async () => {
    if (isCut) throw new Error('cut')
    return listOf(service({}))
  })
  const apis = new AggregatedApis([lane])
  await Promise.all([1, 2].map(() => t.rejects(apis.dryRunRisk(kind, signal), /cut/)))
  isCut = false
  const risks = await Promise.all([1, 2, 3].map(() => apis.dryRunRisk(kind, signal)))
  t.strictSame(risks, [undefined, undefined, undefined])
  t.equal(lane.asked.length, 2)
})

t.test('a dry lane reads as ever, and sends each write as a dry run', async (t) => {
  const lane = laneOf(async () => listOf(service({ service: {} })))
  const lanes = new DryLanes({ lane, ownLane: lane })
  t.match(
    await lanes.laneOf({ ...kind, kind: 'Widget', isNamespaced: true, isWritable: true, isListable: true }, signal),
    {
      risk: /another server answers/,
    },
  )
  const dry = await lanes.laneOf(
    { ...apps, kind: 'Deployment', isNamespaced: true, isWritable: true, isListable: true },
    signal,
  )
  if (!('lane' in dry)) throw new Error(dry.risk)
  lane.asked.length = 0
  for (const path of ['/a', '/a?b=c']) for (const method of ['GET', 'PATCH']) await dry.lane.json(method, path)
  t.strictSame(lane.asked, ['GET /a', 'PATCH /a?dryRun=All', 'GET /a?b=c', 'PATCH /a?b=c&dryRun=All'])
})
