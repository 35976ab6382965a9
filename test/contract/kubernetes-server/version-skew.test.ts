import t, { type Test } from 'tap'
import type { Headers } from '../../../src/proto/http/http-message.ts'
import { clusterForward, data, head, trailer } from './fake-cluster.ts'
import { startServer } from './start-server.ts'

/**
 * Answers with the additions and removals that an operator configured (doc/reference/tunnel-protocol.md 6.4 `Warning`,
 * allow-list).
 */

async function answer(t: Test, header: Headers, options: Parameters<typeof startServer>[1]) {
  const cluster = clusterForward(async function* () {
    yield head(200, header)
    yield data('{}')
    yield trailer
  })
  const { server, port, log } = await startServer(cluster, options)
  t.teardown(() => server.stop(AbortSignal.abort()))
  const get = async () => {
    const response = await fetch(`http://127.0.0.1:${port}/k8s-proxy/api`, {
      headers: { Authorization: 'Bearer ci:42:good' },
    })
    await response.text()
    return response.headers
  }
  return { get, log }
}

const gitlab185 = { kas: '0.1.0', gitlab: 'v18.5.0' }

// wire: answer.warning
t.test('an agent whose version does not fit to GitLab', async (t) => {
  const text = (about: string) => `299 - "GitLab Agent Server: The version of the agent${about}"`
  for (const [versions, via, warning] of [
    [gitlab185, '2.0 gitlab-agent/v18.5.2/abc', null],
    [gitlab185, '2.0 gitlab-agent/v18.4.0/abc', null],
    [gitlab185, '2.0 gitlab-agent/v18.6.0-rc1/abc', null],
    [gitlab185, '1.1 gitlab-agent/v0.1.0/unknown', null],
    [gitlab185, '1.1 gitlab-agent/v18.5.0/abc, 2.0 gitlab-agent/v18.5.0/abc', null],
    [gitlab185, '2.0 gitlab-agent/v18.3.9/abc', text(', v18.3.9, is outdated: GitLab v18.5.0 supports v18.4 to v18.6')],
    [
      gitlab185,
      '1.1 gitlab-agent/v18.5.0/abc, 2.0 gitlab-agent/v16.5.0/abc',
      text(', v16.5.0, is outdated: GitLab v18.5.0 supports v18.4 to v18.6'),
    ],
    [
      gitlab185,
      '2.0 gitlab-agent/v18.7.0/abc',
      text(', v18.7.0, is newer than GitLab: GitLab v18.5.0 supports v18.4 to v18.6'),
    ],
    [{ kas: '0.1.0', gitlab: '18.0.1' }, '2.0 gitlab-agent/v17.11.0/abc', null],
    [
      { kas: '0.1.0', gitlab: '18.0.1' },
      '2.0 gitlab-agent/v17.10.0/abc',
      text(', v17.10.0, is outdated: GitLab v18.0.1 supports v17.11 to v18.1'),
    ],
    [gitlab185, '2.0 gitlab-agent/"x"/abc', text(' cannot be checked. That of GitLab is v18.5.0')],
    [gitlab185, '1.1 some-proxy', text(' cannot be checked. That of GitLab is v18.5.0')],
  ] as const) {
    const { get } = await answer(t, [['Via', [via]]], { versions })
    t.equal((await get()).get('warning'), warning, via)
  }
})

t.test('warnings of the cluster stay', async (t) => {
  const header: Headers = [['Warning', ['299 - "v1 Endpoints is deprecated"']]]
  const { get } = await answer(t, header, { versions: gitlab185 })
  t.match((await get()).get('warning'), /^299 - "v1 Endpoints is deprecated", 299 - "GitLab Agent Server: .*checked/)
  const { get: without } = await answer(t, header, {})
  t.equal((await without()).get('warning'), '299 - "v1 Endpoints is deprecated"')
})

// wire: answer.allow-list, answer.blocked
t.test('the allow-list: off unless it is switched on', async (t) => {
  const header: Headers = [
    ['Content-Type', ['application/json']],
    ['Audit-Id', ['a']],
    ['Set-Cookie', ['_gitlab_session=x']],
    ['X-Mine', ['1']],
  ]
  const names = ['content-type', 'audit-id', 'set-cookie', 'x-mine', 'via']
  const passed = (headers: Awaited<ReturnType<Awaited<ReturnType<typeof answer>>['get']>>) =>
    names.filter((name) => headers.has(name))
  const off = await answer(t, header, {})
  t.same(passed(await off.get()), names)
  const on = await answer(t, header, { allowedResponseHeaders: [] })
  t.same(passed(await on.get()), ['content-type', 'audit-id', 'via'])
  await on.get()
  const blocked = on.log.filter((line) => line.includes('Blocked Kubernetes API proxy response header'))
  t.same(
    blocked.map((line) => JSON.parse(line).header),
    ['Set-Cookie', 'X-Mine'],
    'told once for each',
  )
  const extra = await answer(t, header, { allowedResponseHeaders: ['x-mine'] })
  t.same(passed(await extra.get()), ['content-type', 'audit-id', 'x-mine', 'via'])
})
