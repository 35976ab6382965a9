import t from 'tap'
import { clusterForward, data, head, trailer } from './fake-cluster.ts'
import { directory, startServer } from './start-server.ts'

/** Each answer warns a user whose token ends within 14 days: kubectl prints the header Warning. */

const dayMs = 86_400_000

t.test('Warning, as the API server writes it, from 14 days before the end', async (t) => {
  let endsAt: number | undefined
  const cluster = clusterForward(async function* ({ header }) {
    if (header.urlPath.includes('broken')) throw new Error('broken')
    yield head(200, [['Warning', ['299 - "v1 Endpoints is deprecated"']]])
    yield data('{}')
    yield trailer
  })
  const ofEnding: typeof directory = {
    ...directory,
    grantUser: async (...asked) => ({ ...(await directory.grantUser(...asked)), endsAt }),
  }
  const { server, port } = await startServer(cluster, {}, undefined, { directory: ofEnding })
  t.teardown(() => server.stop(AbortSignal.abort()))
  const warningOf = async (token: string, path = 'api') => {
    const headers = { Authorization: `Bearer ${token}` }
    const response = await fetch(`http://127.0.0.1:${port}/k8s-proxy/${path}`, { headers })
    await response.text()
    return response.headers.get('warning') ?? ''
  }
  const cases: readonly [endsAt: number | undefined, isSaid: boolean][] = [
    [undefined, false],
    [Date.now() + 15 * dayMs, false],
    [Date.now() + 14 * dayMs - 1000, true],
    [Date.now() + 60_000, true],
  ]
  for (const [at, isSaid] of cases) {
    endsAt = at
    const warning = await warningOf('pat:42:good')
    t.match(warning, '299 - "v1 Endpoints is deprecated"', "the cluster's own stays")
    t.equal(
      /299 - "GitLab Agent Server: your token ends at \d{4}-\d\d-\d\dT[\d:]+Z: .*"$/.test(warning),
      isSaid,
      warning,
    )
    t.notMatch(await warningOf('ci:42:good'), 'your token ends', 'a token of a job ends with its job')
  }
  t.match(await warningOf('pat:42:good', 'api/broken'), 'your token ends', 'in an answer of kas, too')
})
