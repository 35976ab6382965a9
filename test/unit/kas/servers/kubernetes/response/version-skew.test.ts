import t from 'tap'
import { VersionSkew } from '../../../../../../src/kas/servers/kubernetes/response/version-skew.ts'

/** An agent of another make can write anything into Via. */

const skew = () => new VersionSkew({ kas: 'v0.1.0', gitlab: 'v18.5.0' })

t.test('the last entry of Via counts, and agentk names itself in it', async (t) => {
  t.equal(skew().warningFor('1.1 front, gRPC/1.0 gitlab-agent/v18.5.2/abc'), undefined)
  t.match(skew().warningFor('gitlab-agent/v18.5.2/abc, 1.1 other'), /cannot be checked/)
  t.match(skew().warningFor('gRPC/1.0 gitlab-agent/v17.0.0/abc'), /outdated/)
})

t.test('a long Via is read in one pass, and not remembered', async (t) => {
  const long = `gitlab-agent/${'a'.repeat(4_000_000)},x gitlab-agent/v18.5.0`
  t.equal(skew().warningFor(long), undefined)
  t.match(skew().warningFor(`gitlab-agent/${'gitlab-agent/'.repeat(300_000)}`), /cannot be checked/)
})
