#!/usr/bin/env -S node --max-semi-space-size=4
import { launch } from './launch.mjs'

await launch('kas')
