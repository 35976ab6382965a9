import { parseArgs } from 'node:util'

/** Prints in one line why a bench cannot run, and exits. */
export function refuse(why: string): never {
  process.stderr.write(`bench: ${why}\n`)
  process.exit(1)
}

/**
 * Reads options that are counts: `--rounds 5`. An unknown option, or a value that is no count from 1 on, ends the
 * bench.
 */
export function readCounts<Name extends string>(defaults: Record<Name, number>): Record<Name, number> {
  return readOptions(defaults, [])
}

/** Reads counts, and options without a value: `--transports`. */
export function readOptions<Name extends string, Flag extends string>(
  defaults: Record<Name, number>,
  flags: readonly Flag[],
): Record<Name, number> & Record<Flag, boolean> {
  const names = Object.keys(defaults) as Name[]
  const options = {
    ...Object.fromEntries(names.map((name) => [name, { type: 'string' as const }])),
    ...Object.fromEntries(flags.map((name) => [name, { type: 'boolean' as const }])),
  }
  const counts = { ...defaults }
  const given = Object.fromEntries(flags.map((name) => [name, false])) as Record<Flag, boolean>
  try {
    const { values } = parseArgs({ options })
    for (const name of names) {
      const value = values[name]
      if (value === undefined) continue
      if (!/^[1-9]\d{0,8}$/.test(String(value))) throw new Error(`--${name} ${value}: a count from 1 on`)
      counts[name] = Number(value)
    }
    for (const name of flags) given[name] = values[name] === true
  } catch (error) {
    refuse((error as Error).message)
  }
  return { ...counts, ...given }
}
