import t, { type Test } from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { Reach } from '../../../../../src/kas/peers/link.ts'
import type { Candidate } from '../../../../../src/kas/peers/links.ts'
import { FrontRedirect, frontRedirect } from '../../../../../src/kas/servers/kubernetes/front-redirect.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import type { InstanceId, Row } from '../../../../../src/membership/membership.ts'

const secret = Buffer.alloc(32, 1).toString('base64')
const said = { headers: { 'gitlab-kas-accel': secret } }
const agentId = 42n as AgentId

interface Known {
  readonly living?: number
  readonly ways?: readonly { name: string; reach?: Reach; state?: string }[]
}

function redirectOf({ living = 0, ways = [] }: Known) {
  return new FrontRedirect(
    {
      tunnels: { holds: () => living > 0 },
      links: {
        candidates: () =>
          ways.map(({ name, reach = 'reachable' }) => ({ instance: name, link: { reach } }) as unknown as Candidate),
      },
      membership: {
        row: (instance: InstanceId) => {
          const { name, state = 'serving' } = ways.find((way) => way.name === String(instance)) ?? {}
          return { head: { name, state } } as Row
        },
      },
    },
    { name: 'kas-0', secret },
  )
}

const locationOf = (known: Known, request: Parameters<FrontRedirect['locationFor']>[0] = said) =>
  redirectOf(known).locationFor(request, agentId)

t.test('the best holder, by its name', async (t) => {
  t.equal(locationOf({ ways: [{ name: 'kas-2' }, { name: 'kas-1' }] }), '@kas-2')
  t.equal(locationOf({ ways: [{ name: 'kas-2.kas.gitlab_svc' }] }), '@kas-2.kas.gitlab_svc')
})

t.test('only for a front that says the secret', async (t) => {
  const ways = [{ name: 'kas-2' }]
  for (const value of [
    undefined,
    '',
    'wrong',
    `${secret}x`,
    secret.slice(1),
    [secret, secret],
    `${secret}, ${secret}`,
  ]) {
    const headers = value === undefined ? {} : { 'gitlab-kas-accel': value as string }
    t.equal(locationOf({ ways }, { headers }), undefined, String(value))
  }
})

t.test('not where this replica is as good, or no other is sure to be there', async (t) => {
  t.equal(locationOf({ living: 1, ways: [{ name: 'kas-2' }] }), undefined, 'it holds the agent')
  t.equal(locationOf({}), undefined, 'nobody does')
  for (const reach of ['suspect', 'unreachable', 'down'] as const) {
    t.equal(locationOf({ ways: [{ name: 'kas-2', reach }] }), undefined, reach)
  }
  for (const state of ['joining', 'leaving']) {
    t.equal(locationOf({ ways: [{ name: 'kas-2', state }] }), undefined, state)
  }
  t.equal(locationOf({ ways: [{ name: 'kas-0' }] }), undefined, 'another of its own name')
  for (const name of ['', 'a b', '/etc', '@kas-2', 'kas\r\nX: 1']) t.equal(locationOf({ ways: [{ name }] }), undefined)
})

t.test('the secret is read from its file', async (t) => {
  const file = (content: string) => `${t.testdir({ secret: content })}/secret`
  const peering = { membership: { name: 'kas-0', row: () => undefined }, links: { candidates: () => [] } }
  const tunnels = { holds: () => false }
  t.same(await frontRedirect(peering, { tunnels, file: undefined }), {}, 'off')
  t.same(await frontRedirect(undefined, { tunnels, file: file(secret) }), {}, 'alone')
  t.ok((await frontRedirect(peering, { tunnels, file: file(`${secret}\n`) })).redirect)
  await refused(t, () => frontRedirect(peering, { tunnels, file: file('c2hvcnQ=') }))
  await refused(t, () => frontRedirect(undefined, { tunnels, file: '/nowhere' }))
})

async function refused(t: Test, read: () => Promise<unknown>): Promise<void> {
  const error = await read().catch((cause: unknown) => KasError.from(cause))
  t.match(error, { code: 'SETTINGS_INVALID' })
  t.match((error as KasError).message, /agent\.kubernetes_api\.accel_redirect_secret_file/)
}
