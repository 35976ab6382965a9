import t, { type Test } from 'tap'
import type { MayImpersonate } from '../../../src/agentk/cluster/may-impersonate.ts'
import type { ClusterSettings } from '../../../src/lib/kubeconfig.ts'
import type { Impersonation } from '../../../src/proto/http/http-message.ts'
import { startSide } from './api-server.ts'
import { exchange, headerValues, wholeRequest } from './http-call.ts'

/** Identities that the API server sees, by the settings of kas and the headers of the caller. */

const nobody: Impersonation = { username: '', groups: [], uid: '', extra: [] }

async function start(t: Test, settings: Partial<ClusterSettings> = {}, may?: MayImpersonate) {
  const seen: string[][] = []
  const { api } = await startSide(
    t,
    (request, response) => {
      seen.push(request.rawHeaders.filter((text, i, all) => /^impersonate/i.test(all[i - (i % 2)] ?? text)))
      response.end('fine')
    },
    settings,
    may,
  )
  const ask = (request: Asked, ...body: string[]) => exchange(api.forward, wholeRequest(request, ...body))
  return { seen, ask }
}

type Asked = Parameters<typeof wholeRequest>[0]
const spellings = ['Impersonate-User', 'impersonate-user', 'IMPERSONATE-USER', 'Impersonate_User', 'impersonate-future']

// wire: as.own-headers, as.impersonate, as.impersonate.all
t.test('callers that act as the agent name nobody', async (t) => {
  const { seen, ask } = await start(t)
  const others = ['Impersonate-Group', 'Impersonate-Uid', 'Impersonate-Extra-Scopes', 'impersonate_group']
  const upgrade = { Upgrade: 'SPDY/3.1', Connection: 'Upgrade' }
  for (const name of [...spellings, ...others]) {
    for (const more of [{}, { method: 'POST', contentLength: 1 }, { query: [['watch', ['1']]] }] as Asked[]) {
      const body = more?.method === 'POST' ? ['x'] : []
      const answer = await ask({ ...more, headers: { [name]: 'system:masters' } }, ...body)
      t.equal(answer.header.status, '403 Forbidden', name)
      t.same(headerValues(answer.header, 'Content-Type'), ['application/json'])
      t.match(JSON.parse(answer.body.toString()), {
        kind: 'Status',
        status: 'Failure',
        reason: 'Forbidden',
        code: 403,
        message: /--callers-may-impersonate \(chart: impersonation\.callers\)/,
      })
    }
    for (const protocol of ['SPDY/3.1', 'websocket']) {
      const upgraded = await ask({ headers: { ...upgrade, Upgrade: protocol, [name]: 'system:masters' } })
      t.equal(upgraded.header.statusCode, 403, `${name} with ${protocol}`)
    }
  }
  const named = await ask({ headers: { Connection: 'Impersonate-User', 'Impersonate-User': 'system:admin' } })
  t.equal(named.header.statusCode, 403)
  const head = await ask({ method: 'HEAD', headers: { 'Impersonate-User': 'eve' } })
  t.same([head.header.statusCode, head.body.length], [403, 0])
  t.same(seen, [])
})

t.test('a caller names exactly whom the list has', async (t) => {
  const { seen, ask } = await start(t, {}, { callers: new Set(['user:ada', 'group:dev']), kas: new Set() })
  const both = { 'impersonate-user': 'ada', 'Impersonate-Group': 'dev' }
  t.equal((await ask({ headers: both })).body.toString(), 'fine')
  t.same(seen, [['Impersonate-User', 'ada', 'Impersonate-Group', 'dev']])
  for (const headers of [
    { 'Impersonate-User': 'Ada' },
    { ...both, 'Impersonate-Uid': '7' },
    { Impersonate_User: 'ada' },
  ])
    t.equal((await ask({ headers })).header.statusCode, 403)
  t.equal(seen.length, 1)
})

t.test('any lets callers name whom they like', async (t) => {
  const { seen, ask } = await start(t, {}, { callers: 'any', kas: new Set() })
  const headers = { 'impersonate-user': 'eve', 'Impersonate-Uid': '7', 'impersonate-extra-scopes': 'x' }
  t.equal((await ask({ headers })).body.toString(), 'fine')
  t.same(seen, [['Impersonate-User', 'eve', 'Impersonate-Uid', '7', 'Impersonate-Extra-Scopes', 'x']])
})

// wire: as.impersonate, as.impersonate.all
t.test('an identity from kas is one of GitLab, or on the list', async (t) => {
  const { seen, ask } = await start(t, {}, { callers: 'any', kas: new Set(['serviceaccount:shop:deployer']) })
  const extra = [{ key: 'agent.gitlab.com/id', val: ['42'] }]
  for (const impersonation of [
    { ...nobody, username: 'gitlab:user:ada', groups: ['gitlab:user'], extra },
    { ...nobody, username: 'system:serviceaccount:shop:deployer' },
  ]) {
    t.equal((await ask({ impersonation })).body.toString(), 'fine')
  }
  t.equal(seen.length, 2)
  for (const impersonation of [
    { ...nobody, username: 'x', groups: ['system:masters'] },
    { ...nobody, username: 'gitlab:user:ada', groups: ['kubeadm:cluster-admins'] },
    { ...nobody, username: 'gitlab:user:ada', uid: '7' },
    { ...nobody, username: 'gitlab:user:ada', extra: [{ key: 'scopes', val: ['x'] }] },
    { ...nobody, username: 'system:serviceaccount:kube-system:deployer' },
    { ...nobody, username: ' system:admin' },
    { ...nobody, groups: ['system:masters'] },
  ]) {
    const answer = await ask({ impersonation })
    t.equal(answer.header.statusCode, 403, JSON.stringify(impersonation))
    t.match(JSON.parse(answer.body.toString()), {
      reason: 'Forbidden',
      message: /--may-impersonate \(chart: impersonation\.allowed\)/,
    })
  }
  t.equal(seen.length, 2)
})

// wire: error.http.nested, error.http.nested.own
t.test(
  'headers of callers are refused beside another identity; two identities of the operator are an error',
  async (t) => {
    const may: MayImpersonate = { callers: 'any', kas: new Set(['user:bot']) }
    const { seen, ask } = await start(t, {}, may)
    const ada = { ...nobody, username: 'gitlab:user:ada' }
    for (const name of spellings)
      t.equal((await ask({ impersonation: ada, headers: { [name]: 'admin' } })).header.statusCode, 403, name)
    t.same(seen, [])
    const own = await start(t, { impersonation: { ...nobody, username: 'bot' } }, may)
    t.equal((await own.ask({ headers: { 'Impersonate-User': 'eve' } })).header.statusCode, 403)
    await t.rejects(own.ask({ impersonation: ada }), {
      grpcCode: 14,
      message:
        'gRPC -> HTTP: nested impersonation is not supported - agent is already configured to impersonate an identity',
    })
    t.equal((await own.ask({})).body.toString(), 'fine')
    t.same(own.seen, [['Impersonate-User', 'bot']])
  },
)
