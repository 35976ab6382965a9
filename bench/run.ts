/** `npm run bench -- <question> [options]`: each file beside this one answers one question. */
import { readdirSync } from 'node:fs'

const questions = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts') && file !== 'run.ts')
  .map((file) => file.slice(0, -3))
const [question = ''] = process.argv.slice(2)
if (questions.includes(question)) {
  process.argv.splice(2, 1)
  await import(`./${question}.ts`)
} else {
  process.stderr.write(`Usage: npm run bench -- <question> [options]; questions: ${questions.join(', ')}\n`)
  process.exitCode = 2
}
