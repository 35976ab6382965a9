import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { alone, jobsOf } from '../../runner/jobs.ts'

t.test(
  'unit tests of a room are one job, those of servers, and what is quick of the ground and of clusters; all others are their own',
  async (t) => {
    const lib = ['test/unit/lib/a.test.ts', 'test/unit/lib/b.test.ts']
    const kas = ['test/unit/kas/a.test.ts', 'test/unit/kas/servers/kubernetes/watch/b.test.ts']
    const cluster = ['test/cluster/rails.test.ts', 'test/cluster/views.test.ts']
    const ground = ['test/ground/imports.test.ts', 'test/ground/words.test.ts']
    const grpc = ['test/contract/grpc/a.test.ts', 'test/contract/grpc/b.test.ts']
    const agentk = ['test/contract/agentk/a.test.ts', 'test/contract/agentk/b.test.ts']
    const gitops = ['test/contract/agentk/gitops/a.test.ts', 'test/contract/agentk/gitops/b.test.ts']
    const others = [
      'test/e2e/installed/installed.test.ts',
      'test/e2e/start.test.ts',
      'test/cluster/namespaces-links.test.ts',
      'test/ground/tree.test.ts',
      'test/unit/ring/ring.test.ts',
    ]
    t.strictSame(jobsOf([...lib, ...kas, ...grpc, ...agentk, ...gitops, ...cluster, ...ground, ...others]), [
      { name: 'test/unit/lib', files: lib },
      { name: 'test/unit/kas', files: kas },
      { name: 'test/contract/grpc', files: grpc },
      { name: 'test/contract/agentk', files: agentk },
      { name: 'test/contract/agentk/gitops', files: gitops },
      { name: 'test/cluster', files: cluster },
      { name: 'test/ground', files: ground },
      ...others.map((file) => ({ name: file, files: [file] })),
    ])
  },
)

t.test('what is alone is there', async (t) => {
  for (const file of alone) t.ok(existsSync(join(import.meta.dirname, '../../..', file)), file)
})
