import { parseArgs } from 'node:util'

/** Says in one line why a bench cannot run, and ends. */
export function refuse(why: string): never {
  process.stderr.write(`bench: ${why}\n`)
  process.exit(1)
}

/** Reads options that are counts: `--rounds 5`. What is no count from 1 on, or unknown, ends the bench. */
export function readCounts<Name extends string>(defaults: Record<Name, number>): Record<Name, number> {
  const names = Object.keys(defaults) as Name[]
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]))
  const counts = { ...defaults }
  try {
    const { values } = parseArgs({ options })
    for (const name of names) {
      const value = values[name]
      if (value !== undefined && !/^[1-9]\d{0,8}$/.test(value)) throw new Error(`--${name} ${value}: a count from 1 on`)
      if (value !== undefined) counts[name] = Number(value)
    }
  } catch (error) {
    refuse((error as Error).message)
  }
  return counts
}
