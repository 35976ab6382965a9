/** Loaded before tap, so that tap gets error-domain.ts in place of async-hook-domain. */
import { registerHooks } from 'node:module'

const own = new URL('./error-domain.ts', import.meta.url).href

registerHooks({
  resolve: (specifier, context, next) => next(specifier === 'async-hook-domain' ? own : specifier, context),
})
