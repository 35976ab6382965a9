import t from 'tap'
import { jobsOf } from '../../runner/jobs.ts'

t.test('unit tests of a room are one job, and those of servers; all others are their own', async (t) => {
  const lib = ['test/unit/lib/a.test.ts', 'test/unit/lib/b.test.ts']
  const servers = ['test/unit/kas/servers/a.test.ts', 'test/unit/kas/servers/kubernetes/watch/b.test.ts']
  const grpc = ['test/contract/grpc/a.test.ts', 'test/contract/grpc/b.test.ts']
  const agentk = ['test/contract/agentk/a.test.ts', 'test/contract/agentk/b.test.ts']
  const gitops = ['test/contract/agentk/gitops/a.test.ts', 'test/contract/agentk/gitops/b.test.ts']
  const others = ['test/e2e/installed/installed.test.ts', 'test/e2e/start.test.ts', 'test/unit/kas/a.test.ts']
  t.strictSame(jobsOf([...lib, ...servers, ...grpc, ...agentk, ...gitops, ...others]), [
    { name: 'test/unit/lib', files: lib },
    { name: 'test/unit/kas/servers', files: servers },
    { name: 'test/contract/grpc', files: grpc },
    { name: 'test/contract/agentk', files: agentk },
    { name: 'test/contract/agentk/gitops', files: gitops },
    ...others.map((file) => ({ name: file, files: [file] })),
  ])
})
