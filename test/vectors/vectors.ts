/** `npm run vectors -- FILE...`: health vectors of any file, by our rules; exits 1 if a status differs. */
import { parseArgs } from 'node:util'
import { compare, readVectors } from './compare.ts'

const { positionals } = parseArgs({ allowPositionals: true })
if (positionals.length === 0) {
  process.stderr.write('npm run vectors -- FILE...: JSON arrays of {name, object, expect: {status, text}}\n')
  process.exit(2)
}
for (const file of positionals) {
  const { vectors, equalStatus, texts, equalTexts, differences } = await compare(readVectors(file))
  for (const difference of differences) process.stdout.write(`${difference}\n`)
  process.stdout.write(`${file}: ${equalStatus} of ${vectors} equal by status, ${equalTexts} of ${texts} by text\n`)
  if (equalStatus < vectors) process.exitCode = 1
}
