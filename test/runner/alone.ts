/** Runs the test file that its argument names, as if that were the program. */
import { pathToFileURL } from 'node:url'
import './tap-domains.ts'

process.argv.splice(1, 1) // tap derives its name and its folders from argv
await import('./slow-machine.ts')
await import('./tell-tests.ts')
await import(pathToFileURL(process.argv[1] as string).href)
