import { accessSync, constants } from 'node:fs'
import { parseArgs } from 'node:util'

/** Parses the arguments of `npm start`. Plain JavaScript without packages, since it runs before set-up, too. */

const options = { kubeconfig: { type: 'string' }, 'port-base': { type: 'string' }, help: { type: 'boolean' } }

const replicaBases = [10, 20, 30]
/** Ports that are used, as distances from the base; dev/start/ports.ts has their purpose. */
export const usedOffsets = [0, 4, 9, ...replicaBases.flatMap((base) => [0, 1, 3, 4, 5, 6].map((port) => base + port))]
/** the last reserved port, as a distance from the base */
export const lastOffset = 39
const maxBase = 65_535 - lastOffset

/** @returns undefined if help is asked for. @throws Error that names the problem */
export function readStartArguments(args) {
  const { values } = parsed(args)
  if (values.help) return undefined
  const { kubeconfig } = values
  if (kubeconfig !== undefined && !isReadable(kubeconfig)) throw new Error(`--kubeconfig: ${kubeconfig} cannot be read`)
  const base = values['port-base']
  if (base !== undefined && !(/^\d{1,5}$/.test(base) && Number(base) >= 1 && Number(base) <= maxBase)) {
    throw new Error(`--port-base: a number from 1 to ${maxBase}`)
  }
  return { kubeconfig, portBase: base === undefined ? undefined : Number(base) }
}

function parsed(args) {
  try {
    return parseArgs({ args: [...args], options })
  } catch (error) {
    const [, unknown] = /^Unknown option '--([^']+)'/.exec(error.message) ?? []
    const near = unknown && Object.keys(options).find((name) => isNear(unknown, name))
    throw near ? new Error(`Unknown option '--${unknown}'. Did you mean --${near}?`) : error
  }
}

const plain = (name) => name.replaceAll(/[-_]/g, '').toLowerCase()

/** Returns true if the names differ only in dashes and case, or in at most two letters. */
function isNear(unknown, name) {
  const [one, other] = [plain(unknown), plain(name)]
  return one === other || (one.length > 2 && distance(one, other) <= 2)
}

/** Levenshtein distance. */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i)
  for (let i = 1; i <= one.length; i++) {
    const next = [i]
    for (let j = 1; j <= other.length; j++)
      next[j] = Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (one[i - 1] === other[j - 1] ? 0 : 1))
    row = next
  }
  return row[other.length]
}

function isReadable(file) {
  try {
    accessSync(file, constants.R_OK)
    return true
  } catch {
    return false
  }
}
