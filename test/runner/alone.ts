/** Runs the test file that its argument names, as if that were the program. */
import { pathToFileURL } from 'node:url'
import './tap-domains.ts'

process.argv.splice(1, 1) // what tap calls itself, and its folders, comes from here
await import('./slow-machine.ts')
await import('./tell-tests.ts')
await import(pathToFileURL(process.argv[1] as string).href)
