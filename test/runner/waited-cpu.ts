import { readFileSync } from 'node:fs'

/** of Linux, whatever the machine */
const ticksPerSecond = 100

/** Seconds of CPU of all children that have ended, and of theirs for which they waited; undefined without /proc. */
export function waitedCpu(): number | undefined {
  let stat: string
  try {
    stat = readFileSync('/proc/self/stat', 'utf8')
  } catch {
    return undefined
  }
  const [, , , , , , , , , , , , , user, system] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(user) + Number(system)) / ticksPerSecond
}
