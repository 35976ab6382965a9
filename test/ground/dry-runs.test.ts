import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { commentsIn } from '../../dev/census/prose.ts'

/** A server behind an APIService may store a dry run. So one file sends all of them, and asks which server answers. */

const root = join(import.meta.dirname, '../../src')

t.test('dry runs are sent by one file, and by doctor for a Lease', async (t) => {
  const files = globSync('**/*.ts', { cwd: root, exclude: ['proto/gen/**'] }).filter((file) => {
    const text = readFileSync(join(root, file), 'utf8')
    const comments = commentsIn(text).reduce((rest, comment) => rest.replace(comment.text, ''), text)
    return /\bdryRun\b["']?\s*[=:]/.test(comments) && /\bAll\b/.test(comments)
  })
  t.strictSame(files.sort(), ['agentk/doctor/cluster.ts', 'agentk/modules/gitops/live/dry-lanes.ts'])
})
