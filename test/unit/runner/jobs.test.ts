import t from 'tap'
import { jobsOf } from '../../runner/jobs.ts'

t.test('unit tests of a room are one job, all others are their own', async (t) => {
  const lib = ['test/unit/lib/a.test.ts', 'test/unit/lib/b.test.ts']
  const servers = ['test/unit/kas/servers/a.test.ts', 'test/unit/kas/servers/kubernetes/watch/b.test.ts']
  const others = ['test/e2e/installed/installed.test.ts', 'test/e2e/start.test.ts', 'test/unit/kas/a.test.ts']
  t.strictSame(jobsOf([...lib, ...servers, ...others]), [
    { name: 'test/unit/lib', files: lib },
    { name: 'test/unit/kas/servers', files: servers },
    ...others.map((file) => ({ name: file, files: [file] })),
  ])
})
