import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { nodeFlags } from '../../../../dev/node-flags.ts'
import { maxProblems } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { type forms, type HeavyResult, podBytes } from './heavy-commits-program.ts'
import { scripted } from './scripted.ts'

/** MiB; heap of the main thread, agentk's own quarter of the pod: a check on this thread would exhaust it */
const mainHeapMb = 128
const run = promisify(execFile)

/** Text of the source's state: the bound, and the place where the commit exceeds it. */
const bounds: Readonly<Record<keyof typeof forms, RegExp>> = {
  'wide kustomizations': /^kustomization\.yaml:1: too many values: more than \d+ in a document/,
  'entries that are not there': /^kustomization\.yaml:1: resources: a is no file or folder of the commit/,
  'wide chart': /^Chart\.yaml:1: too many values/,
  'wide schema': /^values\.schema\.json:0: too many values/,
  'lines that differ': /^\. \(rendered\):30000001: it renders differently each time/,
  'small maps': /^a\.yaml:1: too many values/,
}
/** replaces kustomize: prints line ends, then text that differs each time */
const differing = '/usr/bin/head -c 30000000 /dev/zero | /usr/bin/tr "\\0" "\\n"; echo "a: $HOME"'

for (const [name, bound] of Object.entries(bounds)) {
  t.test(`${name}: in a pod of 512 MiB the commit is refused, and the main thread goes on`, async (t) => {
    const path = await scripted(t, 'kustomize', differing)
    const program = join(import.meta.dirname, 'heavy-commits-program.ts')
    const { stdout } = await run(process.execPath, [
      ...nodeFlags,
      `--max-old-space-size=${mainHeapMb}`,
      program,
      name,
      path,
    ])
    const { problems, problem, turns, maxRssBytes } = JSON.parse(stdout) as HeavyResult
    t.match(problem, bound)
    t.ok(problems <= maxProblems, `${problems} problems`)
    t.ok(turns > 20, `${turns} turns of the main thread`)
    t.ok(maxRssBytes < podBytes, `${maxRssBytes} bytes of the pod's ${podBytes}`)
  })
}
