/**
 * `npm run vectors -- FILE...`: compares health vectors with our rules, or situations with their causes. Exits 1 if a
 * status or any part of a situation differs.
 */
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { compare, type Vector } from './compare.ts'
import { areSituations, compareSituations } from './situations.ts'

const { positionals } = parseArgs({ allowPositionals: true })
if (positionals.length === 0) {
  process.stderr.write(
    'npm run vectors -- FILE...: JSON arrays of {name, object, expect: {status, text}} or of {name, now, objects, events, expect}\n',
  )
  process.exit(2)
}
for (const file of positionals) {
  const content = JSON.parse(readFileSync(file, 'utf8')) as readonly unknown[]
  const { differences, summary, isEqual } = areSituations(content)
    ? await situations(content)
    : await vectors(content as readonly Vector[])
  for (const difference of differences) process.stdout.write(`${difference}\n`)
  process.stdout.write(`${file}: ${summary}\n`)
  if (!isEqual) process.exitCode = 1
}

async function situations(content: Parameters<typeof compareSituations>[0]) {
  const { situations, equal, falseDegraded, differences } = await compareSituations(content)
  const summary = `${equal} of ${situations} situations, ${falseDegraded} false Degraded`
  return { differences, summary, isEqual: equal === situations }
}

async function vectors(content: readonly Vector[]) {
  const { vectors, equalStatus, texts, equalTexts, differences } = await compare(content)
  const summary = `${equalStatus} of ${vectors} equal by status, ${equalTexts} of ${texts} by text`
  return { differences, summary, isEqual: equalStatus === vectors }
}
